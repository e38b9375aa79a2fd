/* Signals: the end of a task's time, and the last words of a process that dies. */
#ifndef STOKER_SIGNALS_H
#define STOKER_SIGNALS_H

/* Installs the handlers. Called before PHP starts, which takes them over. */
void signals_install(void);
/* Ends the current task when SIGUSR1 comes and the server has cancelled it. Called after PHP has started. */
void signals_watch(void);

#endif
