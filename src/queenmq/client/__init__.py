"""The SDK: `from queenmq import Queen, AsyncQueen`.

What users call, for asyncio:

    queen                   AsyncQueen, the front door
    source, queue           what is popped from and pushed to: the fluent grammar
    message, transaction    what was popped; acks and pushes that happen together
    consumer                a function that is called with what is pushed (handler and stop are its parts)
    dispatcher              pops for idle handlers; lease and acks keep what they work on, and send what they say
    signatures              what a type checker knows of handlers, connections and pools
    exactly_once            the same in the application's own transactions, on its own connections
    producer                pushes that travel together: a buffer of lanes
    telemetry               OpenTelemetry, where the application has loaded it
    reading, tail           what is stored, without a group
    admin, groups, messages, dead_letters, traces
    outgoing, payload, moment, table

What they make of it:

    calls, answers          push, pop, ack and reads as values, and what they answer; `queenmq.api` has all other calls
    transports/             how calls reach a queue: http, or postgres (an engine in this process, no server)
    sync/                   the first list for programs without asyncio: generated from it by `make sync-client`

Skins make calls and pass them to a transport; they know nothing of HTTP or SQL. Transports know nothing of the grammar.
So both skins and both transports behave alike, and are tested by the same tests.
"""
