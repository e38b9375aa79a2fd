-- Makes version 1 of a store of version 2, jobs and all.
BEGIN;
DROP INDEX pushes_job;
DROP TABLE remains;
PRAGMA user_version = 1;
COMMIT;
