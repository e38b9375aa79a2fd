-- Version 2. In `store`, `serial` is the last commit that changed no queue's row.

-- Which push a job answers: an export takes it along.
CREATE INDEX pushes_job ON pushes (job);

-- Jobs whose rows were forgotten while something of them is still kept, and until when it is.
CREATE TABLE remains (
    id INTEGER PRIMARY KEY,
    until INTEGER NOT NULL,
    queue INTEGER NOT NULL,
    state INTEGER NOT NULL,
    class INTEGER NOT NULL,
    key BLOB NOT NULL,
    ended INTEGER NOT NULL,
    due INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    exceptions INTEGER NOT NULL,
    crashes INTEGER NOT NULL,
    ran INTEGER NOT NULL,
    options TEXT,
    error TEXT,
    progress TEXT
) STRICT;

CREATE INDEX remains_until ON remains (until);
