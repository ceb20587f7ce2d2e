//go:build ibverbs

#include "core.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

__thread char sl_error_text[SL_ERROR_SIZE];

char *sl_error_buffer(void) { return sl_error_text; }

int sl_fail(int err, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(sl_error_text, sizeof(sl_error_text), format, args);
	va_end(args);
	errno = err;
	return err;
}

const char *sluice_error(void) { return sl_error_text; }

int sl_enter(void)
{
	int state;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

void sl_leave(int state) { pthread_setcancelstate(state, NULL); }
