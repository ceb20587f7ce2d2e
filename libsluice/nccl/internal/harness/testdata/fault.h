/* What the harness does to the plugin's queue pairs, at the calls of libibverbs. */
#ifndef SLUICE_NCCL_FAULT_H
#define SLUICE_NCCL_FAULT_H

#include <stdbool.h>
#include <stdint.h>

enum fault {
	DEAD,    /* what is posted is lost, and after a delay comes back with a status */
	UNACKED, /* what is posted is done, and after a delay comes back with a status all the same */
	SLOW,    /* what is posted is done, and comes back after a delay */
	REFUSED, /* nothing can be posted */
};

/* fault_error brings a queue pair into ERR. */
void fault_error(void *comm, int lane);
/* fault_arm begins a fault on a queue pair; sticky: on those that take its place, too, until fault_clear. */
void fault_arm(void *comm, int lane, enum fault kind, int status, int64_t delay, bool sticky);
void fault_clear(void *comm, int lane);

/* fault_deafen has a connection take its socket to be of no use. */
void fault_deafen(void *comm);

int fault_lanes(void *comm);
int fault_members(void *comm);
bool fault_up(void *comm, int lane);
unsigned fault_epoch(void *comm, int lane);
/* fault_used reports whether the sender has posted pieces on this lane's present queue pair. */
bool fault_used(void *comm, int lane);

/* Statuses by libibverbs' numbers. */
enum { STATUS_OK = 0, STATUS_LOC_PROT = 4, STATUS_FLUSH = 5, STATUS_REM_ACCESS = 10, STATUS_REM_OP = 11, STATUS_RETRY = 12, STATUS_GENERAL = 21 };

#endif
