/* Renews parts of the engine's open request for each task of a cloned worker. */
#ifndef STOKER_RENEWAL_H
#define STOKER_RENEWAL_H

/* Prepares the booted application for being cloned. */
void renewal_freeze(void);
/* Gives the engine's random generators new seeds. */
void renewal_reseed(void);
/* Begins the current task: its variables, its output, its time. */
void renewal_begin(void);
/* Ends it: runs its shutdown functions, closes its session, and sends its answer. */
void renewal_end(void);

#endif
