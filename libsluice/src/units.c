/* Numbers with units, read and written as Sluice's package units does. */
#define _GNU_SOURCE
#include "settings.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct unit {
	enum sl_type type;
	const char *name;
	int64_t worth;
} units[] = {
	{SL_TIME, "s", 1000000000000}, {SL_TIME, "ms", 1000000000}, {SL_TIME, "us", 1000000}, {SL_TIME, "\xc2\xb5s", 1000000}, {SL_TIME, "ns", 1000}, {SL_TIME, "ps", 1},
	{SL_RATE, "Tbps", 1000000000000}, {SL_RATE, "Gbps", 1000000000}, {SL_RATE, "Mbps", 1000000}, {SL_RATE, "Kbps", 1000}, {SL_RATE, "bps", 1},
	{SL_BYTES, "TiB", 1ll << 40}, {SL_BYTES, "GiB", 1 << 30}, {SL_BYTES, "MiB", 1 << 20}, {SL_BYTES, "KiB", 1024},
	{SL_BYTES, "TB", 1000000000000}, {SL_BYTES, "GB", 1000000000}, {SL_BYTES, "MB", 1000000}, {SL_BYTES, "KB", 1000}, {SL_BYTES, "kB", 1000}, {SL_BYTES, "B", 1},
};
enum { UNITS = sizeof(units) / sizeof(units[0]) };

/* The point is a point wherever the program is. */
static locale_t plain;
static void make_plain(void) { plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); }
static locale_t the_plain(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, make_plain);
	return plain;
}

static bool number(const char *text, size_t n, long double *v)
{
	char copy[128], *end;
	if (!n || n >= sizeof(copy) || !the_plain() || isspace((unsigned char)text[0]))
		return false;
	memcpy(copy, text, n);
	copy[n] = 0;
	*v = strtold_l(copy, &end, plain);
	return !*end;
}

/* How much of a text is a decimal number. */
static size_t digits(const char *s)
{
	size_t i = 0;
	while (s[i]) {
		char c = s[i], d = c ? s[i + 1] : 0;
		if ((c == 'e' || c == 'E') && (isdigit((unsigned char)d) || d == '-' || d == '+')) {
			i += 2;
			continue;
		}
		if (c != '.' && c != '-' && c != '+' && !isdigit((unsigned char)c))
			break;
		i++;
	}
	return i;
}

bool sl_parse_float(const char *text, double *value)
{
	long double v;
	size_t n = digits(text);
	if (text[n] || !number(text, n, &v) || !(fabsl(v) <= 1.7976931348623157e308L))
		return false;
	*value = strtod_l(text, NULL, plain);
	return true;
}

const char *sl_print_float(double v, char *room, size_t size)
{
	double again = NAN;
	int digits = 0;
	locale_t own = uselocale(the_plain());
	while (again != v && digits < 17) {
		snprintf(room, size, "%.*e", digits++, v);
		again = strtod(room, NULL);
	}
	const char *e = strchr(room, 'e');
	int exponent = e ? atoi(e + 1) : 0;
	if (!e) /* infinite, or no number */
		snprintf(room, size, "%s", v != v ? "NaN" : v > 0 ? "+Inf" : "-Inf");
	else if (exponent >= -4 && exponent < 6)
		snprintf(room, size, "%.*f", digits - 1 > exponent ? digits - 1 - exponent : 0, v);
	uselocale(own);
	return room;
}

static bool same_unit(const struct unit *u, enum sl_type type, const char *suffix)
{
	if (u->type != type)
		return false;
	if (type != SL_RATE)
		return !strcmp(u->name, suffix);
	/* Rates are also written bit/s and b/s, in any case. */
	char name[16] = "";
	const char *tail = strcasestr(suffix, "bit/s");
	size_t drop = 5;
	if (!tail) {
		tail = strcasestr(suffix, "b/s");
		drop = 3;
	}
	if (tail && strlen(suffix) < 10)
		snprintf(name, sizeof(name), "%.*sbps%s", (int)(tail - suffix), suffix, tail + drop);
	return !strcasecmp(u->name, tail ? name : suffix);
}

bool sl_parse_unit(enum sl_type type, const char *text, int64_t *value, char *why, size_t size)
{
	static const struct {
		const char *what, *example;
	} words[] = {[SL_TIME] = {"time", "us"}, [SL_RATE] = {"rate", "Gbps"}, [SL_BYTES] = {"size", "KiB"}};
	const char *what = words[type].what, *example = words[type].example;
	if (type == SL_TIME && !strcmp(text, "never")) {
		*value = INT64_MAX;
		return true;
	}
	const char *s = text;
	while (isspace((unsigned char)*s))
		s++;
	size_t n = digits(s);
	long double v;
	if (!number(s, n, &v)) {
		snprintf(why, size, "\"%s\" is not a %s: write a number and a unit, such as 5%s", text, what, example);
		return false;
	}
	char suffix[32];
	const char *u = s + n;
	while (isspace((unsigned char)*u))
		u++;
	snprintf(suffix, sizeof(suffix), "%s", u);
	for (size_t i = strlen(suffix); i && isspace((unsigned char)suffix[i - 1]); i--)
		suffix[i - 1] = 0;
	if (!*suffix) {
		*value = 0;
		if (v != 0)
			snprintf(why, size, "%s \"%s\": unit missing, for example %.*s%s", what, text, (int)n, s, example);
		return v == 0;
	}
	int i = 0;
	while (i < UNITS && !same_unit(&units[i], type, suffix))
		i++;
	if (i == UNITS) {
		snprintf(why, size, "\"%s\": unknown unit \"%s\" of %s, expected for example %.*s%s", text, suffix, what, (int)n, s, example);
		return false;
	}
	v = v * (long double)units[i].worth;
	v = v < 0 ? v - 0.5L : v + 0.5L;
	if (!(v < 9223372036854775808.0L && v > -9223372036854775808.0L)) {
		snprintf(why, size, "\"%s\" is too large for a %s", text, what);
		return false;
	}
	*value = (int64_t)v;
	return true;
}

const char *sl_print_unit(enum sl_type type, int64_t v, char *room, size_t size)
{
	static const char *const zero[] = {[SL_TIME] = "0s", [SL_RATE] = "0bps", [SL_BYTES] = "0B"};
	if (!v || (type == SL_TIME && v == INT64_MAX)) {
		snprintf(room, size, "%s", v ? "never" : zero[type]);
		return room;
	}
	const struct unit *best = NULL;
	uint64_t size_of = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	for (int i = 0; i < UNITS; i++) {
		uint64_t worth = (uint64_t)units[i].worth;
		if (units[i].type != type || (unsigned char)units[i].name[0] > 127 || units[i].name[0] == 'k')
			continue;
		/* Sizes are whole multiples of their unit, others at least one of it. */
		bool fits = type == SL_BYTES ? size_of % worth == 0 : size_of >= worth;
		if (fits && (!best || worth > (uint64_t)best->worth))
			best = &units[i];
	}
	uint64_t worth = best ? (uint64_t)best->worth : 1, rest = size_of % worth;
	char fraction[24] = "";
	if (rest) {
		int n = 0;
		fraction[n++] = '.';
		for (uint64_t w = worth / 10; rest && w; w /= 10) {
			fraction[n++] = (char)('0' + rest / w);
			rest %= w;
		}
		fraction[n] = 0;
	}
	snprintf(room, size, "%s%llu%s%s", v < 0 ? "-" : "", (unsigned long long)(size_of / worth), fraction, best ? best->name : "");
	return room;
}
