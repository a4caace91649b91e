"""Looking after queues, as values: one file per noun, with what can be asked about it and what is answered."""
