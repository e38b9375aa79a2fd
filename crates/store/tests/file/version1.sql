-- A Stoker job store. Users may read this file with their own tools while Stoker runs; what they write is
-- theirs to answer for.
--
-- Ids and order numbers come from one generator: the Unix millisecond shifted left by 15, and a count. Times
-- are Unix milliseconds. Keys are bytes. States: 0 ready, 1 delayed, 2 retrying, 3 suspended, 4 done,
-- 5 failed, 6 cancelled.

-- Facts about the store. `secret`: goes into ids as people see them. `created`: when.
CREATE TABLE store (
    key TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Counters are written once per commit, in the transaction that changed what they count, so that neither a
-- start nor a look has to count rows.
CREATE TABLE queues (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    paused INTEGER NOT NULL DEFAULT 0,
    settings TEXT NOT NULL DEFAULT '',
    ready INTEGER NOT NULL DEFAULT 0,
    delayed INTEGER NOT NULL DEFAULT 0, -- and retrying
    suspended INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0, -- so far
    cancelled INTEGER NOT NULL DEFAULT 0, -- so far
    failed INTEGER NOT NULL DEFAULT 0, -- and still kept
    retried INTEGER NOT NULL DEFAULT 0, -- runs so far
    kept INTEGER NOT NULL DEFAULT 0, -- done and cancelled jobs that are still kept
    last INTEGER NOT NULL DEFAULT 0, -- the highest number given when this row was written
    serial INTEGER NOT NULL DEFAULT 0 -- the commit that wrote this row
) STRICT;

-- Unfinished jobs. What is small stands first, because reading up to it need not touch a long body's pages.
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    state INTEGER NOT NULL,
    class INTEGER NOT NULL,
    key BLOB NOT NULL,
    -- Its place in its lane (queue, class, key). A ready job has one. A retrying job has one if its scheduler
    -- goes on holding it, because nothing of its key may overtake it; then no timer makes it ready.
    ord INTEGER,
    due INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    exceptions INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    ran INTEGER NOT NULL DEFAULT 0, -- the last run, microseconds
    codec INTEGER NOT NULL,
    marks INTEGER NOT NULL DEFAULT 0, -- 1: has a unique key, 2: has rows in `kept`
    notes INTEGER NOT NULL DEFAULT 0, -- how many rows of `history` were written
    options TEXT, -- JSON
    error TEXT, -- JSON: the last one
    progress TEXT, -- JSON: percent and a line
    meta BLOB,
    body BLOB
) STRICT;

CREATE INDEX waiting ON jobs (queue, class, key, ord) WHERE state = 0;
CREATE INDEX due ON jobs (due) WHERE state IN (1, 2) AND ord IS NULL;
CREATE INDEX resting ON jobs (queue, ord) WHERE state = 2 AND ord IS NOT NULL;

-- Jobs that have ended: moved here, because that leaves `jobs` small and dense, and this too.
CREATE TABLE ended (
    queue INTEGER NOT NULL,
    state INTEGER NOT NULL,
    id INTEGER NOT NULL,
    class INTEGER NOT NULL,
    key BLOB NOT NULL,
    ended INTEGER NOT NULL,
    due INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    exceptions INTEGER NOT NULL,
    crashes INTEGER NOT NULL,
    ran INTEGER NOT NULL,
    codec INTEGER NOT NULL,
    marks INTEGER NOT NULL,
    notes INTEGER NOT NULL,
    fingerprint INTEGER, -- of a failed job's error: what groups it with others
    options TEXT,
    error TEXT,
    progress TEXT,
    meta BLOB, -- of a done job in `kept`, if at all
    body BLOB,
    PRIMARY KEY (queue, state, id)
) STRICT, WITHOUT ROWID;

-- In what order jobs ended, for forgetting the oldest: a row per commit instead of an index entry per job.
-- Kind 0: done and cancelled, 1: failed. `ids`: 8 bytes each, little endian; the highest bit says that the
-- job left something in `history` or `kept`. An id that has left `ended` meanwhile is passed over.
CREATE TABLE ages (
    queue INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    no INTEGER NOT NULL,
    at INTEGER NOT NULL,
    ids BLOB NOT NULL,
    PRIMARY KEY (queue, kind, no)
) STRICT, WITHOUT ROWID;

-- What is kept of few jobs. Kind 0: result, 1: output, 2: checkpoint, 3: meta, 4: body of a done job.
CREATE TABLE kept (
    job INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    until INTEGER, -- NULL: as long as the job
    codec INTEGER NOT NULL DEFAULT 0,
    bytes BLOB NOT NULL,
    PRIMARY KEY (job, kind)
) STRICT, WITHOUT ROWID;

CREATE INDEX kept_until ON kept (until) WHERE until IS NOT NULL;

-- Only what is worth telling; an uneventful life is columns of its row.
CREATE TABLE history (
    job INTEGER NOT NULL,
    no INTEGER NOT NULL,
    at INTEGER NOT NULL,
    what INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (job, no)
) STRICT, WITHOUT ROWID;

-- Who holds a unique key.
CREATE TABLE uniques (
    queue INTEGER NOT NULL,
    key TEXT NOT NULL,
    job INTEGER NOT NULL,
    until INTEGER, -- NULL: as long as the job is unfinished
    PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX uniques_until ON uniques (until) WHERE until IS NOT NULL;

-- Which job answers a repeated push.
CREATE TABLE pushes (
    queue INTEGER NOT NULL,
    key BLOB NOT NULL,
    job INTEGER NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX pushes_until ON pushes (until);

-- One row: the jobs that run, 8 bytes each, little endian. After a crash of the server they count as crashed.
CREATE TABLE running (
    slot INTEGER PRIMARY KEY CHECK (slot = 0),
    ids BLOB NOT NULL
) STRICT;

-- A store as version 1 left it: one job that waits, one that rests, one that failed, one that was done.
PRAGMA application_id = 1400139627;
PRAGMA user_version = 1;
INSERT INTO store VALUES ('secret', 42), ('created', 1700000000000);
INSERT INTO queues (id, name, paused, settings, ready, delayed, done, failed, retried, kept, last)
VALUES (0, 'mails', 1, '{"weight":2}', 1, 1, 1, 1, 1, 1, 55705600000000009);
INSERT INTO jobs (id, queue, state, class, key, ord, due, codec, marks, options, meta, body)
VALUES (55705600000000001, 0, 0, 1, x'61', 55705600000000001, 1700000000000, 2, 1,
        '{"tries":3,"unique":{"key":"u"},"type":"Mail"}', x'6d657461', x'626f6479');
INSERT INTO jobs (id, queue, state, class, key, due, attempt, exceptions, ran, codec, marks, notes, error, body)
VALUES (55705600000000002, 0, 2, 0, x'', 1700000001000, 1, 1, 500, 1, 2, 1,
        '{"class":"E","message":"m","at_ms":1700000000500}', x'626f6479');
INSERT INTO kept (job, kind, bytes) VALUES (55705600000000002, 2, x'73617665');
INSERT INTO history VALUES (55705600000000002, 1, 1700000000500, 1, 'E: m');
INSERT INTO uniques VALUES (0, 'u', 55705600000000001, NULL);
INSERT INTO ended (queue, state, id, class, key, ended, due, attempt, exceptions, crashes, ran, codec, marks,
                   notes, fingerprint, error, body)
VALUES (0, 5, 55705600000000003, 0, x'', 1700000000600, 1700000000000, 2, 2, 0, 9, 1, 0, 1, 7,
        '{"class":"F","message":"n","at_ms":1700000000600}', x'626f6479');
INSERT INTO history VALUES (55705600000000003, 1, 1700000000600, 3, 'F: n');
INSERT INTO ages VALUES (0, 1, 55705600000000004, 1700000000600, x'030000b4f2e7c580');
INSERT INTO ended (queue, state, id, class, key, ended, due, attempt, exceptions, crashes, ran, codec, marks,
                   notes)
VALUES (0, 4, 55705600000000005, 0, x'', 1700000000700, 1700000000000, 1, 0, 0, 9, 1, 0, 0);
INSERT INTO ages VALUES (0, 0, 55705600000000006, 1700000000700, x'050000b4f2e7c500');
