/* Signal handlers: end the script when its task is cancelled or times out, and report a crash to the server before the process
 * dies. */
#ifndef STOKER_SIGNALS_H
#define STOKER_SIGNALS_H

/* Installs the handlers. Called before PHP starts, which takes them over. */
void signals_install(void);
/* Makes SIGUSR1 end the current task if the server has cancelled it. Called after PHP has started. */
void signals_watch(void);

#endif
