// Whether the server answers. While it does not, one question is asked again and again, with growing pauses, and
// everything else waits: a server that comes back is not met by a crowd.
const PAUSES_SECONDS = [1, 2, 4, 8, 15];
const PROBE_MS_MAX = 5_000;

class Connection {
  constructor() {
    this.away = null; // { since, message, nextAt } while the server does not answer
    this.refusal = null; // why the token is not good, if the server said so
    this.listeners = new Set();
    this.attempts = 0;
    this.timer = null;
    document.addEventListener("visibilitychange", () => this.away && this.plan());
  }

  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  lost(message) {
    if (this.away) return;
    this.attempts = 0;
    this.away = { since: new Date(), message };
    this.plan();
  }

  answered() {
    if (!this.away) return;
    clearTimeout(this.timer);
    this.away = null;
    this.tell();
  }

  signedOut(message) {
    this.refusal = message;
    this.tell();
  }

  /** Ask again after a pause; not at all while nobody looks at this tab. */
  plan() {
    clearTimeout(this.timer);
    if (document.hidden) return;
    const seconds = PAUSES_SECONDS[Math.min(this.attempts++, PAUSES_SECONDS.length - 1)];
    this.away = { ...this.away, nextAt: Date.now() + seconds * 1000 };
    this.timer = setTimeout(() => this.probe(), seconds * 1000);
    this.tell();
  }

  async probe() {
    clearTimeout(this.timer);
    try {
      const answer = await fetch("health", { cache: "no-store", signal: AbortSignal.timeout(PROBE_MS_MAX) });
      if (answer.ok) return this.answered();
    } catch {
      // It is still away.
    }
    this.plan();
  }

  tell() {
    for (const listener of [...this.listeners]) listener();
  }
}

export const connection = new Connection();
