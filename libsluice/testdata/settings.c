/*
 * What libsluice makes of configurations: settings ENGINE reads one from each line of its
 * input, settings alone the environment, and settings environment one from each line, written
 * rate=10Gbps|batch=2. Numbers with a point are printed as their bits.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "../src/shim.h"

static void print(const struct sl_settings *s)
{
	for (size_t i = 0; i < sl_known_schemes_n; i++) {
		const struct sl_scheme *scheme = &sl_known_schemes[i];
		if (strcmp(scheme->name, s->cc))
			continue;
		for (size_t k = 0; k < scheme->n_keys; k++) {
			int64_t v = 0;
			memcpy(&v, (const char *)&s->config + scheme->keys[k].offset, scheme->keys[k].type == SL_BOOL ? sizeof(bool) : sizeof(v));
			printf(" %s=%lld", scheme->keys[k].name, (long long)v);
		}
	}
}

static int environment(void)
{
	struct sl_environment e;
	if (sl_settings_environment(&e)) {
		printf("error: %s\n", sl_error_text);
		return 0;
	}
	const struct sl_settings *s = &e.settings;
	printf("cc=%s rate=%lld segment=%lld batch=%lld max_outstanding=%lld line_rate=%lld base_rtt=%lld nic_rate=%lld calibrate_every=%lld group=%lld thread=%d bypass=%d debug=%d stats=%d metrics=%d",
	       s->cc, (long long)s->rate, (long long)s->segment, (long long)s->batch, (long long)s->max_outstanding, (long long)s->line_rate,
	       (long long)s->base_rtt, (long long)s->nic_rate, (long long)s->calibrate_every, (long long)s->group, s->progress_thread, s->bypass, e.debug, e.stats, e.metrics);
	for (const char *p = e.devices; p && *p; p = strchr(p, '\n') + 1)
		printf(" device=%.*s", (int)strcspn(p, "\n"), p);
	bool matches = sl_settings_matches(&e, "mlx5_1");
	print(s);
	free(e.devices);
	printf(" matches mlx5_1: %d\n", matches);
	return 0;
}

/* Sets the variables that a line has. */
static void export(char *line)
{
	char name[64] = "SLUICE_";
	clearenv();
	for (char *one = strtok(line, "|"); one; one = strtok(NULL, "|")) {
		char *value = strchr(one, '=');
		size_t n = 7;
		for (char *p = one; p < value && n < sizeof(name) - 1; p++)
			name[n++] = (char)toupper((unsigned char)*p);
		name[n] = 0;
		setenv(name, value + 1, 1);
	}
}

int main(int argc, char **argv)
{
	static char line[1 << 16];
	if (argc < 2)
		return environment();
	while (fgets(line, sizeof(line), stdin)) {
		struct sluice_options o = {.size = sizeof(o), .engine = argv[1], .engine_config = line};
		struct sl_settings s;
		line[strcspn(line, "\n")] = 0;
		if (!strcmp(argv[1], "environment")) {
			export(line);
			environment();
			continue;
		}
		if (sl_settings_options(&o, &s)) {
			printf("error: %s\n", sl_error_text);
			continue;
		}
		printf("ok");
		print(&s);
		printf("\n");
	}
	return 0;
}
