#include "shim.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

__thread char sl_error_text[SL_ERROR_SIZE];
bool sl_debugging;

int sl_fail(int err, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(sl_error_text, sizeof(sl_error_text), format, args);
	va_end(args);
	sl_debug("level=DEBUG msg=\"%s\"", sl_error_text);
	errno = err;
	return err;
}

void sl_debug(const char *format, ...)
{
	if (!sl_debugging)
		return;
	char line[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(stderr, "sluice: %s\n", line);
}

const char *sluice_error(void) { return sl_error_text; }

int sl_enter(void)
{
	int state;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

void sl_leave(int state) { pthread_setcancelstate(state, NULL); }
