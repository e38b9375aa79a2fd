-- Version 4: a row's checksum is made so that it can be changed along with some of the row's values. All are written
-- anew; a row that another program wrote counts as Stoker's from now on.

-- One index instead of three, of what waits for a time: each job that comes and goes had all of them opened. First what
-- the time is by: 0, the wall clock; 4, a clock that nobody sets (bit 4 of `marks`); below 0, what rests between two runs
-- of an ordered key, by queue.
DROP INDEX due;
DROP INDEX delayed;
DROP INDEX resting;
CREATE INDEX timed ON jobs (iif(ord IS NULL, marks & 4, -1 - queue), due) WHERE state IN (1, 2);
