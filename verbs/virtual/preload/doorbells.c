/*
 * Pages that the program rings doorbells on. The device sets a doorbell to 0 when it has
 * seen it, at a waiting point; so one that is not 0 has to be seen before time passes.
 */
#define _GNU_SOURCE
#include "turns.h"

#define PAGE 4096
#define PAGES 512

static char *pages[PAGES];
static int count;

void doorbells_mapped(void *addr, size_t length)
{
	for (size_t at = 0; at + PAGE <= length && count < PAGES; at += PAGE)
		pages[count++] = (char *)addr + at;
}

void doorbells_unmapped(void *addr, size_t length)
{
	for (int i = 0; i < count;)
		if ((uintptr_t)pages[i] - (uintptr_t)addr < length)
			pages[i] = pages[--count];
		else
			i++;
}

/* A completion queue's is at 0x20, those of send queues are each 0x100 bytes from 0x800 on. */
bool doorbell_rung(void)
{
	for (int i = 0; i < count; i++) {
		char *p = pages[i];

		if (*(volatile uint64_t *)(p + 0x20))
			return true;
		for (int at = 0x800; at < PAGE; at += 0x100)
			if (*(volatile uint64_t *)(p + at))
				return true;
	}
	return false;
}
