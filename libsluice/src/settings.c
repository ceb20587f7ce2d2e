#define _GNU_SOURCE
#include "shim.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

extern char **environ;

/* ---- names */

static int least(int a, int b) { return a < b ? a : b; }

/* Insertions, deletions, replacements and exchanges of neighbours, whatever the case. */
static int distance(const char *a, const char *b)
{
	enum { MOST = 64 };
	int n = (int)strlen(a), m = (int)strlen(b), rows[3][MOST + 1];
	if (n > MOST || m > MOST)
		return MOST;
	for (int j = 0; j <= m; j++)
		rows[0][j] = j;
	for (int i = 1; i <= n; i++) {
		int *row = rows[i % 3], *before = rows[(i - 1) % 3], *earlier = rows[(i + 1) % 3];
		row[0] = i;
		for (int j = 1; j <= m; j++) {
			int cost = tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]);
			row[j] = least(before[j - 1] + cost, least(before[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 2]) &&
			    tolower((unsigned char)a[i - 2]) == tolower((unsigned char)b[j - 1]))
				row[j] = least(row[j], earlier[j - 2] + 1);
		}
	}
	return rows[n % 3][m];
}

static const struct sl_scheme *scheme_of(const char *name)
{
	for (size_t i = 0; i < sl_known_schemes_n; i++)
		if (!strcmp(sl_known_schemes[i].name, name))
			return &sl_known_schemes[i];
	return NULL;
}

static int no_scheme(const char *name)
{
	char all[400] = "";
	const char *near = NULL;
	int best = 2 + (int)strlen(name) / 3;
	for (size_t i = 0; i < sl_known_schemes_n; i++) {
		const char *one = sl_known_schemes[i].name;
		int d = distance(name, one);
		size_t longest = strlen(one) > strlen(name) ? strlen(one) : strlen(name);
		if (d < best && (size_t)d < longest) {
			best = d;
			near = one;
		}
		if (!sl_known_schemes[i].refused)
			snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", *all ? ", " : "", one);
	}
	if (near)
		return sl_fail(EINVAL, "no rate engine is called \"%s\": is \"%s\" meant?", name, near);
	return sl_fail(EINVAL, "no rate engine is called \"%s\": take one of %s", name, all);
}

const char *const *sl_settings_schemes(void)
{
	static const char *names[32];
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&lock);
	if (!names[0])
		for (size_t i = 0, n = 0; i < sl_known_schemes_n && n < 31; i++)
			if (!sl_known_schemes[i].refused)
				names[n++] = sl_known_schemes[i].name;
	pthread_mutex_unlock(&lock);
	return names;
}

const char *sl_settings_lacks(const struct sl_settings *s)
{
	const struct sl_scheme *scheme = scheme_of(s->cc);
	return scheme ? scheme->lacks : NULL;
}

void sl_settings_engine_name(const struct sl_settings *s, char *room, size_t size)
{
	snprintf(room, size, "%s%s", *s->cc ? s->cc : s->rate > 0 ? "fixed rate" : "", *s->cc && s->rate > 0 ? ", capped" : "");
}

/* ---- values */

static bool whole(const char *text, int64_t *v)
{
	char *end;
	errno = 0;
	long long n = strtoll(text, &end, 10);
	if (end == text || *end || errno || isspace((unsigned char)*text) || *text == '+')
		return false;
	*v = n;
	return true;
}

static bool truth(const char *text, bool *v)
{
	*v = !strcmp(text, "true") || !strcmp(text, "True") || !strcmp(text, "TRUE");
	return *v || !strcmp(text, "false") || !strcmp(text, "False") || !strcmp(text, "FALSE");
}

static int choose(const struct sl_key *k, const char *text, void *to)
{
	for (int64_t v = 0; k->choices[v]; v++)
		if (!strcmp(text, k->choices[v])) {
			memcpy(to, &v, sizeof(v));
			return 0;
		}
	return sl_fail(EINVAL, "%s: \"%s\" is none of them: %s", k->name, text, k->want);
}

/* Reads a value to where it goes. 0, or EINVAL with words. */
static int read_value(const struct sl_node *n, const struct sl_key *k, void *to)
{
	char why[300];
	int64_t v;
	bool ok = n->kind == SL_SCALAR;
	if (!ok)
		return sl_fail(EINVAL, "%s: expected a value, not a list or a map", n->key);
	switch (k->type) {
	case SL_TIME:
	case SL_RATE:
	case SL_BYTES:
		if (!sl_parse_unit(k->type, n->text, &v, why, sizeof(why)))
			return sl_fail(EINVAL, "%s: %s", n->key, why);
		memcpy(to, &v, sizeof(v));
		return 0;
	case SL_INT:
		if (!whole(n->text, &v))
			return sl_fail(EINVAL, "%s: expected a whole number, got \"%s\"", n->key, n->text);
		memcpy(to, &v, sizeof(v));
		return 0;
	case SL_FLOAT:
		if (!sl_parse_float(n->text, to))
			return sl_fail(EINVAL, "%s: expected a number, got \"%s\"", n->key, n->text);
		return 0;
	case SL_BOOL:
		if (n->quoted || !truth(n->text, to))
			return sl_fail(EINVAL, "%s: expected true or false, got \"%s\"", n->key, n->text);
		return 0;
	case SL_CHOICE:
		return choose(k, n->text, to);
	}
	return EINVAL;
}

/* ---- the engine */

int sl_settings_start(const struct sl_settings *s, struct sluice_engine *e, struct sluice_env env, bool *some)
{
	*some = *s->cc || s->rate > 0;
	if (!*s->cc) {
		sluice_engine_start_none(e, env);
		e->state.none.keep.rate = s->rate;
		return 0;
	}
	int r = sl_check_env(s->kind, &s->config, &env);
	if (r)
		return r;
	scheme_of(s->cc)->start(e, &s->config, env);
	return 0;
}

/* The engine and its settings, a map or NULL. */
static int read_engine(struct sl_settings *s, const char *name, const struct sl_node *config)
{
	memset(s->cc, 0, sizeof(s->cc));
	if (!name || !*name) {
		if (config && config->first)
			return sl_fail(EINVAL, "cc_config requires cc, the engine that it configures");
		return 0;
	}
	const struct sl_scheme *scheme = scheme_of(name);
	if (!scheme)
		return no_scheme(name);
	if (scheme->refused)
		return sl_fail(EINVAL, "engine %s %s", name, scheme->refused);
	snprintf(s->cc, sizeof(s->cc), "%s", name);
	s->kind = scheme->kind;
	if (scheme->defaults)
		scheme->defaults(&s->config);
	for (const struct sl_node *n = config ? config->first : NULL; n; n = n->next) {
		size_t i = 0;
		while (i < scheme->n_keys && strcmp(scheme->keys[i].name, n->key))
			i++;
		if (i == scheme->n_keys)
			return sl_fail(EINVAL, "cc_config of %s: unknown field \"%s\"", name, n->key);
		if (read_value(n, &scheme->keys[i], (char *)&s->config + scheme->keys[i].offset)) {
			char why[SL_ERROR_SIZE];
			snprintf(why, sizeof(why), "%s", sl_error_text);
			return sl_fail(EINVAL, "cc_config of %s: %s", name, why);
		}
	}
	return sl_check(scheme, &s->config);
}

/* Whether what keys below an offset set is the same. */
static bool same_values(const struct sl_key *keys, size_t n, const void *a, const void *b, size_t below)
{
	for (size_t i = 0; i < n; i++) {
		size_t size = keys[i].type == SL_BOOL ? sizeof(bool) : 8;
		if (keys[i].offset < below && memcmp((const char *)a + keys[i].offset, (const char *)b + keys[i].offset, size))
			return false;
	}
	return true;
}

bool sl_settings_equal(const struct sl_settings *a, const struct sl_settings *b)
{
	const struct sl_scheme *scheme = scheme_of(a->cc);
	return !strcmp(a->cc, b->cc) && same_values(sl_variables, sl_variables_n, a, b, sizeof(*a)) &&
	       (!scheme || same_values(scheme->keys, scheme->n_keys, &a->config, &b->config, sizeof(a->config)));
}

/* ---- struct sluice_options */

static const struct sl_key *variable_of(const char *name)
{
	for (size_t i = 0; i < sl_variables_n; i++)
		if (!strcmp(sl_variables[i].name, name))
			return &sl_variables[i];
	return NULL;
}

static int64_t limited(uint64_t v, int64_t most) { return v < (uint64_t)most ? (int64_t)v : most; }

int sl_settings_options(const struct sluice_options *o, struct sl_settings *s)
{
	memset(s, 0, sizeof(*s));
	if (!o)
		return sl_check_settings(s);
	s->rate = limited(o->rate, 1ll << 62);
	s->segment = o->segment;
	s->batch = o->batch;
	s->max_outstanding = limited(o->max_outstanding, 1ll << 62);
	s->line_rate = limited(o->line_rate, 1ll << 62);
	s->base_rtt = limited(o->base_rtt_ns, 1000000000000) * SLUICE_NANOSECOND;
	s->nic_rate = limited(o->nic_rate, 1ll << 62);
	s->calibrate_every = limited(o->calibrate_ns, 1000000000000) * SLUICE_NANOSECOND;
	s->progress_thread = o->progress_thread != 0;
	s->bypass = o->bypass != 0;
	if (o->group && *o->group && choose(variable_of("group"), o->group, &s->group))
		return EINVAL;
	char why[300];
	struct sl_node *config = NULL;
	if (o->engine_config && *o->engine_config && !(config = sl_yaml_parse(o->engine_config, why, sizeof(why))))
		return sl_fail(EINVAL, "cc_config: %s", why);
	int r = read_engine(s, o->engine, config);
	sl_yaml_free(config);
	return r ? r : sl_check_settings(s);
}

/* ---- the environment */

/* What the file and the variables say, until all is read: the engine's settings are read when
 * the engine is known. */
struct raw {
	struct sl_environment *to;
	char *cc; /* NULL if it is not given */
	struct sl_node *cc_config;
};

static int no_memory(void) { return sl_fail(ENOMEM, "no memory for the configuration"); }

static void release(struct raw *r)
{
	free(r->cc);
	sl_yaml_free(r->cc_config);
}

static void add_device(struct raw *r, const char *name, size_t n)
{
	char *all = NULL;
	if (!n || asprintf(&all, "%s%.*s\n", r->to->devices ? r->to->devices : "", (int)n, name) < 0)
		return;
	free(r->to->devices);
	r->to->devices = all;
}

/* One key of a file. The node may be taken from it. */
static int read_key(struct raw *r, struct sl_node *n)
{
	if (!strcmp(n->key, "cc")) {
		if (n->kind != SL_SCALAR)
			return sl_fail(EINVAL, "cc: expected a name");
		free(r->cc);
		r->cc = strdup(n->text);
		return r->cc ? 0 : no_memory();
	}
	if (!strcmp(n->key, "cc_config")) {
		if (n->kind != SL_MAP)
			return sl_fail(EINVAL, "cc_config: expected a map, such as {t_low: 60us}");
		sl_yaml_free(r->cc_config);
		r->cc_config = calloc(1, sizeof(*n));
		if (!r->cc_config)
			return no_memory();
		r->cc_config->kind = SL_MAP;
		r->cc_config->first = n->first;
		n->first = NULL;
		return 0;
	}
	if (!strcmp(n->key, "devices")) {
		if (n->kind != SL_LIST)
			return sl_fail(EINVAL, "devices: expected a list, such as [mlx5_0, rxe*]");
		for (struct sl_node *d = n->first; d; d = d->next) {
			if (d->kind != SL_SCALAR)
				return sl_fail(EINVAL, "devices: expected names");
			add_device(r, d->text, strlen(d->text));
		}
		return 0;
	}
	const struct sl_key *k = variable_of(n->key);
	return k ? read_value(n, k, (char *)r->to + k->offset) : sl_fail(EINVAL, "unknown field \"%s\"", n->key);
}

static char *contents(const char *name)
{
	FILE *f = fopen(name, "re");
	char *text = NULL;
	size_t n = 0, room = 0;
	if (!f)
		return NULL;
	for (;;) {
		if (n + 4096 > room) {
			char *more = realloc(text, room + 65536);
			if (!more)
				break;
			text = more;
			room += 65536;
		}
		size_t got = fread(text + n, 1, room - n - 1, f);
		n += got;
		if (!got || n > 1 << 20)
			break;
	}
	int failed = ferror(f) ? errno : !text ? ENOMEM : 0;
	fclose(f);
	if (failed) {
		free(text);
		errno = failed;
		return NULL;
	}
	text[n] = 0;
	return text;
}

static int read_file(struct raw *r, const char *name)
{
	char why[300], words[SL_ERROR_SIZE];
	char *text = contents(name);
	if (!text)
		return sl_fail(EINVAL, "SLUICE_CONFIG: open %s: %s", name, strerror(errno));
	struct sl_node *all = sl_yaml_parse(text, why, sizeof(why));
	free(text);
	if (!all)
		return sl_fail(EINVAL, "%s (SLUICE_CONFIG): %s", name, why);
	int e = 0;
	for (struct sl_node *n = all->first; n && !e; n = n->next)
		e = read_key(r, n);
	sl_yaml_free(all);
	if (!e)
		return 0;
	snprintf(words, sizeof(words), "%s", sl_error_text);
	return sl_fail(e, "%s (SLUICE_CONFIG): %s", name, words);
}

/* The texts that Go's strconv.ParseBool takes; nothing is off. 0, or EINVAL with words. */
static int switched(const char *text, bool *v)
{
	static const char *const yes[] = {"1", "t", "T", "TRUE", "true", "True"}, *const no[] = {"", "0", "f", "F", "FALSE", "false", "False"};
	*v = false;
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		if (!strcmp(text, no[i]))
			return 0;
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		if (!strcmp(text, yes[i]))
			*v = true;
	return *v ? 0 : sl_fail(EINVAL, "set it to 1 or 0");
}

static int read_variable(struct raw *r, const char *key, const char *value)
{
	char why[300];
	if (!strcmp(key, "cc")) {
		free(r->cc);
		r->cc = strdup(value);
		return r->cc ? 0 : no_memory();
	}
	if (!strcmp(key, "devices")) {
		free(r->to->devices);
		r->to->devices = NULL;
		for (const char *p = value; *p;) {
			size_t n = strcspn(p, ", ");
			add_device(r, p, n);
			p += n + (p[n] != 0);
		}
		return 0;
	}
	if (!strcmp(key, "cc_config")) {
		char *text = NULL;
		if (asprintf(&text, "{%s}", value) < 0)
			return no_memory();
		struct sl_node *n = sl_yaml_parse(text, why, sizeof(why));
		free(text);
		if (!n)
			return sl_fail(EINVAL, "%s", why);
		sl_yaml_free(r->cc_config);
		r->cc_config = n;
		return 0;
	}
	const struct sl_key *k = variable_of(key);
	if (!k)
		return 0; /* another's */
	if (k->type == SL_BOOL)
		return switched(value, (bool *)((char *)r->to + k->offset));
	if (strpbrk(value, "\n\r"))
		return sl_fail(EINVAL, "it has more than one line");
	if (!*value)
		return sl_fail(EINVAL, "it is empty: unset it, or give a value");
	struct sl_node n = {.kind = SL_SCALAR, .key = (char *)key, .text = (char *)value};
	return read_value(&n, k, (char *)r->to + k->offset);
}

/* Says of an error which variable it is of. */
static int of_variable(int err, int n, const char *name, const char *value)
{
	char words[SL_ERROR_SIZE];
	if (!err)
		return 0;
	snprintf(words, sizeof(words), "%s", sl_error_text);
	return sl_fail(err, "%.*s=%.200s: %s", n, name, value, words);
}

int sl_settings_metrics(bool *on)
{
	const char *value = getenv("SLUICE_METRICS");
	return of_variable(switched(value ? value : "", on), 14, "SLUICE_METRICS", value);
}

static int read_variables(struct raw *r)
{
	for (char **v = environ; v && *v; v++) {
		const char *eq = strchr(*v, '=');
		char key[64];
		if (!eq || strncmp(*v, "SLUICE_", 7) || (size_t)(eq - *v) - 7 >= sizeof(key))
			continue;
		size_t n = 0;
		bool upper = true;
		for (const char *p = *v + 7; p < eq; p++) {
			upper &= !islower((unsigned char)*p);
			key[n++] = (char)tolower((unsigned char)*p);
		}
		key[n] = 0;
		int err = upper ? of_variable(read_variable(r, key, eq + 1), (int)(eq - *v), *v, eq + 1) : 0;
		if (err)
			return err;
	}
	return 0;
}

/* A bracket that does not end would match nothing but itself. */
static int check_patterns(const char *p)
{
	for (; p && *p; p = strchr(p, '\n') + 1) {
		const char *end = strchr(p, '\n'), *open = memchr(p, '[', (size_t)(end - p));
		if (open && !memchr(open, ']', (size_t)(end - open)))
			return sl_fail(EINVAL, "devices: pattern \"%.*s\": a [ without its ]", (int)(end - p), p);
	}
	return 0;
}

int sl_settings_environment(struct sl_environment *e)
{
	struct raw r = {.to = e};
	memset(e, 0, sizeof(*e));
	const char *file = getenv("SLUICE_CONFIG");
	int err = file && *file ? read_file(&r, file) : 0;
	err = err ? err : read_variables(&r);
	/* A program under the preload library is steered unless something else is asked for. */
	err = err ? err : read_engine(&e->settings, r.cc ? r.cc : e->settings.rate == 0 ? "timely" : "", r.cc_config);
	err = err ? err : sl_check_settings(&e->settings);
	err = err ? err : check_patterns(e->devices);
	if (err) {
		free(e->devices);
		e->devices = NULL;
	}
	release(&r);
	return err;
}

bool sl_settings_matches(const struct sl_environment *e, const char *device)
{
	for (const char *p = e->devices; p && *p;) {
		char pattern[128];
		size_t n = strcspn(p, "\n");
		snprintf(pattern, sizeof(pattern), "%.*s", (int)n, p);
		if (!fnmatch(pattern, device, 0))
			return true;
		p += n + 1;
	}
	return !e->devices;
}
