-- Downgrades a store of the current version to version 2, with its jobs.
BEGIN;
DROP TRIGGER jobs_inserted;
DROP TRIGGER jobs_updated;
DROP TRIGGER ended_inserted;
DROP TRIGGER ended_updated;
DROP TRIGGER remains_inserted;
DROP TRIGGER remains_updated;
DROP TRIGGER kept_inserted;
DROP TRIGGER kept_updated;
DROP TRIGGER history_inserted;
DROP TRIGGER history_updated;
DROP TRIGGER uniques_inserted;
DROP TRIGGER uniques_updated;
DROP TRIGGER pushes_inserted;
DROP TRIGGER pushes_updated;
DROP TRIGGER queues_inserted;
DROP TRIGGER queues_updated;
DROP TABLE damaged;

CREATE TABLE jobs_2 (
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
    meta BLOB,
    body BLOB
) STRICT;
INSERT INTO jobs_2 (id, queue, state, class, key, ord, due, attempt, exceptions, crashes, ran, codec, marks, notes, options,
    error, progress, meta, body)
SELECT id, queue, state, class, key, ord, due, attempt, exceptions, crashes, ran, codec, marks, notes, options,
    error, progress, meta, body FROM jobs;
DROP TABLE jobs;
ALTER TABLE jobs_2 RENAME TO jobs;

CREATE TABLE ended_2 (
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
    meta BLOB,
    body BLOB,
    PRIMARY KEY (queue, state, id)
) STRICT, WITHOUT ROWID;
INSERT INTO ended_2 (queue, state, id, class, key, ended, due, attempt, exceptions, crashes, ran, codec, marks, notes, fingerprint,
    options, error, progress, meta, body)
SELECT queue, state, id, class, key, ended, due, attempt, exceptions, crashes, ran, codec, marks, notes, fingerprint,
    options, error, progress, meta, body FROM ended;
DROP TABLE ended;
ALTER TABLE ended_2 RENAME TO ended;

CREATE INDEX waiting ON jobs (queue, class, key, ord) WHERE state = 0;
CREATE INDEX due ON jobs (due) WHERE state IN (1, 2) AND ord IS NULL;
CREATE INDEX resting ON jobs (queue, ord) WHERE state = 2 AND ord IS NOT NULL;

ALTER TABLE remains DROP COLUMN owner;
ALTER TABLE remains DROP COLUMN checksum;
ALTER TABLE pushes DROP COLUMN owner;
ALTER TABLE pushes DROP COLUMN body_checksum;
ALTER TABLE pushes DROP COLUMN checksum;
ALTER TABLE queues DROP COLUMN checksum;
ALTER TABLE kept DROP COLUMN checksum;
ALTER TABLE history DROP COLUMN checksum;
ALTER TABLE uniques DROP COLUMN checksum;
PRAGMA user_version = 2;
COMMIT;
