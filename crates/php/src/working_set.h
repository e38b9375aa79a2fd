/* The memory that a task touches, so that each worker can have it mapped before its task comes. */
#ifndef STOKER_WORKING_SET_H
#define STOKER_WORKING_SET_H

/* Runs `task` in a copy of this process, and notes which pages it has touched. */
void working_set_record(void (*task)(void));
/* Maps and copies the noted pages in this process. */
void working_set_prefault(void);

#endif
