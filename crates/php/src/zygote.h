/* The zygote of strategy = "snapshot": it has booted an application, and clones a worker for each request of Stoker:
 * docs/reference/protocol.md, section 13. */
#ifndef STOKER_ZYGOTE_H
#define STOKER_ZYGOTE_H

#include <stdbool.h>

/* Whether this process was started as a zygote. */
bool zygote_is_requested(void);
/* Reports that the application has booted, and clones workers until Stoker ends. Returns in each worker, with its socket to the server.
 * `prepare` runs in a worker before anything else, if no other one was requested just before. */
int zygote_serve(void (*prepare)(void));
/* Has the application boot again, in a new zygote. Called in a worker; does nothing if this process was not cloned from a zygote. */
void zygote_reboot(void);
/* Clones this process. The copy is a child of this process, or of its parent. Returns like fork(). */
int zygote_clone(bool is_sibling);

#endif
