/* The messages of verbs/virtual/internal/guest (message.go), which see. */
#ifndef SLUICE_MESSAGE_H
#define SLUICE_MESSAGE_H

#include <stdint.h>

#define MESSAGE_VERSION 1

enum operation {
	OP_HELLO = 1,
	OP_WRITE = 2,
	OP_IOCTL = 3,
	OP_MMAP = 4,
	OP_MAPPED = 5,
	OP_CLOSE = 6,
};

enum reply_flag {
	FLAG_FD = 1,
	FLAG_CLOCK = 2,
	FLAG_DOORBELLS = 4,
};

#define MAX_WRITE (64 << 10)
#define MAX_DATA (64 << 10)

struct request {
	uint32_t op, reserved;
	uint64_t a, b, c;
};

struct reply {
	uint32_t err, flags;
	uint64_t value, to, fd_at, offset;
};

#endif
