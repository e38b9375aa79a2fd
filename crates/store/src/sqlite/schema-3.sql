-- Version 3: who owns a job, and checksums. `owner` is text such as `uid:33`; NULL: administrators only.
-- The small columns stay in front of the payload, so both tables with payloads are written anew.

CREATE TABLE jobs_3 (
    id INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    state INTEGER NOT NULL,
    class INTEGER NOT NULL,
    key BLOB NOT NULL,
    ord INTEGER,
    due INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    exceptions INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    ran INTEGER NOT NULL DEFAULT 0,
    codec INTEGER NOT NULL,
    marks INTEGER NOT NULL DEFAULT 0,
    notes INTEGER NOT NULL DEFAULT 0,
    options TEXT,
    error TEXT,
    progress TEXT,
    owner TEXT,
    checksum INTEGER, -- of the columns above; NULL: another program wrote the row
    payload_checksum INTEGER, -- of id, meta and body
    meta BLOB,
    body BLOB
) STRICT;

INSERT INTO jobs_3 (id, queue, state, class, key, ord, due, attempt, exceptions, crashes, ran, codec, marks, notes,
    options, error, progress, meta, body)
SELECT id, queue, state, class, key, ord, due, attempt, exceptions, crashes, ran, codec, marks, notes,
    options, error, progress, meta, body FROM jobs;
DROP TABLE jobs;
ALTER TABLE jobs_3 RENAME TO jobs;

CREATE INDEX waiting ON jobs (queue, class, key, ord) WHERE state = 0;
CREATE INDEX due ON jobs (due) WHERE state IN (1, 2) AND ord IS NULL;
CREATE INDEX resting ON jobs (queue, ord) WHERE state = 2 AND ord IS NOT NULL;

CREATE TABLE ended_3 (
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
    fingerprint INTEGER,
    options TEXT,
    error TEXT,
    progress TEXT,
    owner TEXT,
    checksum INTEGER,
    payload_checksum INTEGER,
    meta BLOB,
    body BLOB,
    PRIMARY KEY (queue, state, id)
) STRICT, WITHOUT ROWID;

INSERT INTO ended_3 (queue, state, id, class, key, ended, due, attempt, exceptions, crashes, ran, codec, marks, notes,
    fingerprint, options, error, progress, meta, body)
SELECT queue, state, id, class, key, ended, due, attempt, exceptions, crashes, ran, codec, marks, notes,
    fingerprint, options, error, progress, meta, body FROM ended;
DROP TABLE ended;
ALTER TABLE ended_3 RENAME TO ended;

ALTER TABLE remains ADD COLUMN owner TEXT;
-- Of the job's push. Its row outlives the job.
ALTER TABLE pushes ADD COLUMN owner TEXT;
-- Of the body that was pushed, to tell a repeated push from another one with the same key.
ALTER TABLE pushes ADD COLUMN body_checksum INTEGER;

ALTER TABLE store ADD COLUMN checksum INTEGER;
ALTER TABLE queues ADD COLUMN checksum INTEGER;
ALTER TABLE ages ADD COLUMN checksum INTEGER;
ALTER TABLE kept ADD COLUMN checksum INTEGER;
ALTER TABLE history ADD COLUMN checksum INTEGER;
ALTER TABLE uniques ADD COLUMN checksum INTEGER;
ALTER TABLE pushes ADD COLUMN checksum INTEGER;
ALTER TABLE remains ADD COLUMN checksum INTEGER;
ALTER TABLE running ADD COLUMN checksum INTEGER;
