/*
 * Feeds engines what the test sends on the standard input, and answers with what they
 * allow, and at the end of each block with all of their memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice_core.h"

enum { FLOWS = 4 };

enum event { ACK, LOSS, TIMEOUT, CNP, START };

struct head {
	uint8_t event, flow, path, kind;
	uint32_t config; /* bytes */
};

static char *block, *at;

static const void *take(size_t n)
{
	const void *p = at;
	at += n;
	return p;
}

/* Instead of a word stands its place in the test's list, which engines.h ends with. */
static void word(const char **w);

static void start(struct sluice_engine *e, const struct head *h)
{
	struct sluice_env env;
	char config[1024];
	memcpy(&env, take(sizeof env), sizeof env);
	if (h->config > sizeof config)
		abort();
	memcpy(config, take(h->config), h->config);
#define ENGINE(number, tag, base)                             \
	case number: {                                        \
		struct sluice_##base##_config c;              \
		if (h->config != sizeof c)                    \
			abort();                              \
		memcpy(&c, config, sizeof c);                 \
		sluice_engine_start_##tag(e, c, env);         \
		return;                                       \
	}
#define PLAIN(number, tag)                                    \
	case number:                                          \
		sluice_engine_start_##tag(e, env);            \
		return;
#define WORDS(number, tag, read)                              \
	case number: {                                        \
		struct sluice_##tag##_config c;               \
		if (h->config != sizeof c)                    \
			abort();                              \
		memcpy(&c, config, sizeof c);                 \
		read                                          \
		sluice_engine_start_##tag(e, c, env);         \
		return;                                       \
	}
	switch (h->kind) {
#include "engines.h"
	default:
		abort();
	}
}

static void word(const char **w)
{
	static const char *const words[] = {WORD_LIST};
	uintptr_t i;
	memcpy(&i, w, sizeof i);
	if (i >= sizeof words / sizeof *words)
		abort();
	*w = words[i];
}

int main(void)
{
	static struct sluice_engine flows[FLOWS];
	static struct sluice_control answers[1 << 16];
	uint64_t sizes[] = {sizeof(struct sluice_ack), sizeof(struct sluice_telemetry_stack), sizeof(struct sluice_control),
			    sizeof(struct sluice_env), sizeof flows[0], offsetof(struct sluice_engine, state)};
	fwrite(sizes, sizeof sizes, 1, stdout);
	fflush(stdout);
	for (;;) {
		uint32_t length[2]; /* events, and bytes */
		if (fread(length, sizeof length, 1, stdin) != 1)
			return 0;
		block = realloc(block, length[1]);
		if (length[0] > 1 << 16 || !block || fread(block, length[1], 1, stdin) != 1)
			return 1;
		at = block;
		for (uint32_t i = 0; i < length[0]; i++) {
			struct head h;
			memcpy(&h, take(sizeof h), sizeof h);
			struct sluice_engine *e = &flows[h.flow];
			struct sluice_control c;
			memset(&answers[i], 0, sizeof answers[i]);
			if (h.event == ACK) {
				struct sluice_ack a;
				struct sluice_telemetry_stack path;
				memcpy(&a, take(sizeof a), sizeof a);
				a.path = NULL;
				if (h.path) {
					memcpy(&path, take(sizeof path), sizeof path);
					a.path = &path;
				}
				c = sluice_engine_on_ack(e, &a);
			} else if (h.event == START) {
				memset(e, 0, sizeof *e);
				start(e, &h);
				c = sluice_engine_control(e);
			} else {
				sluice_time now;
				memcpy(&now, take(sizeof now), sizeof now);
				c = h.event == LOSS ? sluice_engine_on_loss(e, now) : h.event == TIMEOUT ? sluice_engine_on_timeout(e, now) : sluice_engine_on_cnp(e, now);
			}
			answers[i].rate = c.rate;
			answers[i].window = c.window;
			answers[i].class_ = c.class_;
		}
		if (at != block + length[1])
			return 1;
		fwrite(answers, sizeof answers[0], length[0], stdout);
		fwrite(flows, sizeof flows, 1, stdout);
		fflush(stdout);
	}
}
