-- Tasks as logs of records, and what is searched, counted and remembered of them.

-- One row: who this file is and who has it.
CREATE TABLE meta (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  -- Changed when a backup is restored.
  generation INTEGER NOT NULL,
  -- One more each time a process opens the file.
  epoch INTEGER NOT NULL,
  -- Authenticates page tokens.
  token_key BLOB NOT NULL,
  created_us INTEGER NOT NULL
) STRICT;

-- Agent and owner, so that other tables hold one small number for both.
CREATE TABLE scope (
  pk INTEGER PRIMARY KEY,
  agent TEXT NOT NULL,
  owner TEXT NOT NULL,
  UNIQUE (agent, owner)
) STRICT;

CREATE TABLE task (
  pk INTEGER PRIMARY KEY,
  id BLOB NOT NULL UNIQUE,
  scope INTEGER NOT NULL,
  -- 16 bytes: a UUID, or a digest of any other name. The name is in `context` then.
  context_key BLOB NOT NULL,
  context TEXT,
  state INTEGER NOT NULL,
  status_us INTEGER NOT NULL,
  created_us INTEGER NOT NULL,
  -- A run of the epoch owns it.
  live INTEGER NOT NULL,
  epoch INTEGER NOT NULL
) STRICT;

CREATE INDEX task_by_time ON task (scope, status_us, id);
CREATE INDEX task_by_state ON task (scope, state, status_us, id);
CREATE INDEX task_by_context ON task (scope, context_key, status_us, id);
-- What a restart has to look at: with a run, submitted or working.
CREATE INDEX task_by_life ON task (pk) WHERE live = 1 OR state IN (1, 2);

-- The records of one task in one commit: k = task << 20 | last seq, body = RecordBatch.
CREATE TABLE log (
  k INTEGER PRIMARY KEY,
  body BLOB NOT NULL
) STRICT;

CREATE TABLE checkpoint (
  pk INTEGER PRIMARY KEY,
  seq INTEGER NOT NULL,
  body BLOB NOT NULL
) STRICT;

-- Logs that a checkpoint covers to the end, and when they may go.
CREATE TABLE tail (
  due_us INTEGER NOT NULL,
  pk INTEGER NOT NULL,
  PRIMARY KEY (due_us, pk)
) STRICT, WITHOUT ROWID;

-- How many tasks are in a state.
CREATE TABLE counter (
  scope INTEGER NOT NULL,
  state INTEGER NOT NULL,
  n INTEGER NOT NULL,
  PRIMARY KEY (scope, state)
) STRICT, WITHOUT ROWID;

-- Idempotency keys. state: 0 open, 1 made the task, 2 answered with the message.
CREATE TABLE claim (
  scope INTEGER NOT NULL,
  key TEXT NOT NULL,
  hash BLOB NOT NULL,
  task BLOB NOT NULL,
  state INTEGER NOT NULL,
  message BLOB,
  created_us INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX claim_by_age ON claim (created_us);
