/* State of the process that PHP does not reset between tasks. */
#ifndef STOKER_ISOLATION_H
#define STOKER_ISOLATION_H

/* Notes the state to which each task returns. Called once. */
void isolation_begin(void);
/* Returns to it. */
void isolation_reset(void);

#endif
