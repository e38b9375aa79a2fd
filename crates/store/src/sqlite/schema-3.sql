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
-- Bit 4 of `marks`: the due time is by a clock that nobody sets, as long as the server lives.
CREATE INDEX due ON jobs (due) WHERE state IN (1, 2) AND ord IS NULL AND marks & 4 = 0;
CREATE INDEX delayed ON jobs (due) WHERE state IN (1, 2) AND ord IS NULL AND marks & 4 <> 0;
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

ALTER TABLE queues ADD COLUMN checksum INTEGER; -- of id, name, paused and settings
ALTER TABLE kept ADD COLUMN checksum INTEGER;
ALTER TABLE history ADD COLUMN checksum INTEGER;
ALTER TABLE uniques ADD COLUMN checksum INTEGER;
ALTER TABLE pushes ADD COLUMN checksum INTEGER;
ALTER TABLE remains ADD COLUMN checksum INTEGER;

-- Jobs whose checksums are wrong, as they were found. Nothing reads them but people.
CREATE TABLE damaged (
    id INTEGER PRIMARY KEY,
    at INTEGER, -- when it was found
    origin TEXT, -- the table
    part TEXT, -- record or payload
    queue, state, class, key, attempt, exceptions, crashes, ran, due, options, error, progress, owner, codec, marks,
    notes, ord, ended, fingerprint, meta, body
);

-- What other programs write has no checksum. Stoker's own connections run no triggers.
CREATE TRIGGER jobs_inserted AFTER INSERT ON jobs WHEN NEW.checksum IS NOT NULL BEGIN
    UPDATE jobs SET checksum = NULL, payload_checksum = NULL WHERE id = NEW.id;
END;
CREATE TRIGGER jobs_updated AFTER UPDATE ON jobs WHEN NEW.checksum IS NOT NULL BEGIN
    UPDATE jobs SET checksum = NULL,
        payload_checksum = iif(NEW.meta IS OLD.meta AND NEW.body IS OLD.body, payload_checksum, NULL) WHERE id = NEW.id;
END;
CREATE TRIGGER ended_inserted AFTER INSERT ON ended WHEN NEW.checksum IS NOT NULL BEGIN
    UPDATE ended SET checksum = NULL, payload_checksum = NULL WHERE queue = NEW.queue AND state = NEW.state AND id = NEW.id;
END;
CREATE TRIGGER ended_updated AFTER UPDATE ON ended WHEN NEW.checksum IS NOT NULL BEGIN
    UPDATE ended SET checksum = NULL,
        payload_checksum = iif(NEW.meta IS OLD.meta AND NEW.body IS OLD.body, payload_checksum, NULL) WHERE queue = NEW.queue AND state = NEW.state AND id = NEW.id;
END;
CREATE TRIGGER remains_inserted AFTER INSERT ON remains WHEN NEW.checksum IS NOT NULL BEGIN
    UPDATE remains SET checksum = NULL WHERE id = NEW.id;
END;
CREATE TRIGGER remains_updated AFTER UPDATE ON remains WHEN NEW.checksum IS NOT NULL BEGIN
    UPDATE remains SET checksum = NULL WHERE id = NEW.id;
END;
CREATE TRIGGER kept_inserted AFTER INSERT ON kept WHEN NEW.checksum IS NOT NULL BEGIN
    UPDATE kept SET checksum = NULL WHERE job = NEW.job AND kind = NEW.kind;
END;
CREATE TRIGGER kept_updated AFTER UPDATE ON kept WHEN NEW.checksum IS NOT NULL BEGIN
    UPDATE kept SET checksum = NULL WHERE job = NEW.job AND kind = NEW.kind;
END;
CREATE TRIGGER history_inserted AFTER INSERT ON history WHEN NEW.checksum IS NOT NULL BEGIN
    UPDATE history SET checksum = NULL WHERE job = NEW.job AND no = NEW.no;
END;
CREATE TRIGGER history_updated AFTER UPDATE ON history WHEN NEW.checksum IS NOT NULL BEGIN
    UPDATE history SET checksum = NULL WHERE job = NEW.job AND no = NEW.no;
END;
CREATE TRIGGER uniques_inserted AFTER INSERT ON uniques WHEN NEW.checksum IS NOT NULL BEGIN
    UPDATE uniques SET checksum = NULL WHERE queue = NEW.queue AND key = NEW.key;
END;
CREATE TRIGGER uniques_updated AFTER UPDATE ON uniques WHEN NEW.checksum IS NOT NULL BEGIN
    UPDATE uniques SET checksum = NULL WHERE queue = NEW.queue AND key = NEW.key;
END;
CREATE TRIGGER pushes_inserted AFTER INSERT ON pushes WHEN NEW.checksum IS NOT NULL BEGIN
    UPDATE pushes SET checksum = NULL WHERE queue = NEW.queue AND key = NEW.key;
END;
CREATE TRIGGER pushes_updated AFTER UPDATE ON pushes WHEN NEW.checksum IS NOT NULL BEGIN
    UPDATE pushes SET checksum = NULL WHERE queue = NEW.queue AND key = NEW.key;
END;
CREATE TRIGGER queues_inserted AFTER INSERT ON queues WHEN NEW.checksum IS NOT NULL BEGIN
    UPDATE queues SET checksum = NULL WHERE id = NEW.id;
END;
CREATE TRIGGER queues_updated AFTER UPDATE OF id, name, paused, settings ON queues WHEN NEW.checksum IS NOT NULL BEGIN
    UPDATE queues SET checksum = NULL WHERE id = NEW.id;
END;
