/* The part of YAML that configurations are written in: maps, lists and scalars, in blocks by
 * indentation or in braces and brackets, and comments. The rest is refused by name. */
#define _GNU_SOURCE
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 8 };

struct reader {
	const char *at;
	char *why;
	size_t size;
	bool failed;
	int depth;
};

static struct sl_node *refuse(struct reader *r, struct sl_node *n, const char *what)
{
	if (!r->failed)
		snprintf(r->why, r->size, "%s", what);
	r->failed = true;
	sl_yaml_free(n);
	return NULL;
}

static struct sl_node *node(struct reader *r, enum sl_node_kind kind)
{
	struct sl_node *n = calloc(1, sizeof(*n));
	if (!n)
		return refuse(r, NULL, "no memory");
	n->kind = kind;
	return n;
}

void sl_yaml_free(struct sl_node *n)
{
	while (n) {
		struct sl_node *next = n->next;
		sl_yaml_free(n->first);
		free(n->key);
		free(n->text);
		free(n);
		n = next;
	}
}

static bool blank(char c) { return c == ' ' || c == '\t'; }
static bool ends(char c) { return c == 0 || c == '\n' || c == '\r'; }

static void skip_blanks(struct reader *r)
{
	while (blank(*r->at))
		r->at++;
	if (*r->at == '#' )
		while (!ends(*r->at))
			r->at++;
}

/* Blanks, comments and line ends. */
static void skip_lines(struct reader *r)
{
	for (;;) {
		skip_blanks(r);
		if (!*r->at || !ends(*r->at))
			return;
		r->at++;
	}
}

static const char *const not_read = "anchors, tags, and texts of several lines are not read: write keys with plain values, lists and maps";

/* A scalar, up to where a flow, a line or a key ends. */
static char *scalar(struct reader *r, bool flow, bool key, bool *quoted)
{
	const char *from = r->at;
	*quoted = *from == '"' || *from == '\'';
	if (*quoted) {
		char q = *from++;
		const char *to = from;
		while (!ends(*to) && *to != q && *to != '\\')
			to++;
		if (*to != q || to[1] == q) {
			refuse(r, NULL, "a quoted text has to end on its line, and has no escapes");
			return NULL;
		}
		r->at = to + 1;
		return strndup(from, (size_t)(to - from));
	}
	if (*from && strchr("&*!|>%@`?", *from)) {
		refuse(r, NULL, not_read);
		return NULL;
	}
	const char *to = from;
	while (!ends(*to)) {
		if (*to == '#' && to > from && blank(to[-1]))
			break;
		if (*to == ':' && (ends(to[1]) || blank(to[1]) || (flow && strchr(",}]", to[1])))) {
			if (!key) {
				refuse(r, NULL, "a value has \": \" in it: quote it");
				return NULL;
			}
			break;
		}
		if (flow && strchr(",{}[]", *to))
			break;
		to++;
	}
	r->at = to;
	while (to > from && blank(to[-1]))
		to--;
	return strndup(from, (size_t)(to - from));
}

static struct sl_node *flow(struct reader *r);

static struct sl_node *plain_value(struct reader *r, bool in_flow)
{
	struct sl_node *n = node(r, SL_SCALAR);
	if (!n)
		return NULL;
	n->text = scalar(r, in_flow, false, &n->quoted);
	if (!n->text)
		return refuse(r, n, "no memory");
	if (!n->quoted && (!*n->text || !strcmp(n->text, "~") || !strcmp(n->text, "null")))
		return refuse(r, n, "a key has no value");
	return n;
}

static struct sl_node *value(struct reader *r, bool in_flow)
{
	return *r->at == '{' || *r->at == '[' ? flow(r) : plain_value(r, in_flow);
}

static bool twice(const struct sl_node *map, const char *key)
{
	for (const struct sl_node *n = map->first; n; n = n->next)
		if (n->key && !strcmp(n->key, key))
			return true;
	return false;
}

/* The key of a map's entry and what is behind it up to the value. */
static char *key_of(struct reader *r, const struct sl_node *map, bool in_flow)
{
	bool quoted;
	char *key = scalar(r, in_flow, true, &quoted);
	if (!key)
		return NULL;
	skip_blanks(r);
	const char *wrong = !*key ? "a key is empty" : *r->at != ':' ? "expected \"key: value\"" : NULL;
	if (!wrong && twice(map, key)) {
		snprintf(r->why, r->size, "the key \"%s\" is given twice", key);
		r->failed = true;
	} else if (wrong) {
		refuse(r, NULL, wrong);
	}
	if (r->failed) {
		free(key);
		return NULL;
	}
	r->at++;
	skip_blanks(r);
	return key;
}

/* {a: b, c: d} or [a, b]. */
static struct sl_node *flow(struct reader *r)
{
	bool map = *r->at++ == '{';
	struct sl_node *all = node(r, map ? SL_MAP : SL_LIST), **end = all ? &all->first : NULL;
	if (!all || ++r->depth > DEEPEST)
		return refuse(r, all, "maps in maps, too deep");
	for (;;) {
		skip_lines(r);
		if (*r->at == (map ? '}' : ']'))
			break;
		char *key = NULL;
		if (map && !(key = key_of(r, all, true)))
			return refuse(r, all, "");
		skip_lines(r);
		struct sl_node *n = value(r, true);
		if (!n) {
			free(key);
			return refuse(r, all, "");
		}
		n->key = key;
		*end = n;
		end = &n->next;
		skip_lines(r);
		if (*r->at == ',')
			r->at++;
		else if (*r->at != (map ? '}' : ']'))
			return refuse(r, all, map ? "a map in braces does not end: expected \", \" or \"}\"" : "a list in brackets does not end: expected \", \" or \"]\"");
	}
	r->at++;
	r->depth--;
	return all;
}

/* Lines, from the next that is not empty: how far it is indented, -1 at the end. */
static int indent(struct reader *r)
{
	for (;;) {
		const char *line = r->at;
		int n = 0;
		while (line[n] == ' ')
			n++;
		const char *p = line + n;
		if (*p == '\t') {
			refuse(r, NULL, "a line is indented by a tab: use spaces");
			return -1;
		}
		if (!*p)
			return -1;
		if (!ends(*p) && *p != '#') {
			if (!strncmp(p, "---", 3) && n == 0 && (ends(p[3]) || blank(p[3]))) {
				r->at = p + 3;
				continue;
			}
			return n;
		}
		while (!ends(*p))
			p++;
		r->at = *p ? p + 1 : p;
	}
}

static bool item(const char *p) { return *p == '-' && (blank(p[1]) || ends(p[1])); }

/* The rest of a line has to be empty. */
static bool line_ends(struct reader *r)
{
	skip_blanks(r);
	if (!ends(*r->at))
		refuse(r, NULL, "a line has more than a key and its value");
	return !r->failed;
}

static struct sl_node *block(struct reader *r, int at)
{
	bool list = item(r->at + at);
	struct sl_node *all = node(r, list ? SL_LIST : SL_MAP), **end = all ? &all->first : NULL;
	if (!all || ++r->depth > DEEPEST)
		return refuse(r, all, "maps in maps, too deep");
	int n;
	while ((n = indent(r)) == at && item(r->at + at) == list) {
		r->at += at;
		char *key = NULL;
		if (list) {
			r->at++;
			skip_blanks(r);
		} else if (!(key = key_of(r, all, false))) {
			return refuse(r, all, "");
		}
		struct sl_node *v = NULL;
		if (!ends(*r->at)) {
			v = value(r, false);
		} else {
			int inner = indent(r);
			/* A list may stand under its key without being indented. */
			if (!r->failed && (inner > at || (inner == at && !list && item(r->at + inner))))
				v = block(r, inner);
			else
				refuse(r, NULL, "a key has no value");
			if (v)
				goto add;
		}
		if (!v || !line_ends(r)) {
			free(key);
			sl_yaml_free(v);
			return refuse(r, all, "");
		}
	add:
		v->key = key;
		*end = v;
		end = &v->next;
	}
	if (r->failed || n > at)
		return refuse(r, all, "a line is indented otherwise than those before it");
	r->depth--;
	return all;
}

struct sl_node *sl_yaml_parse(const char *text, char *why, size_t size)
{
	struct reader r = {.at = text, .why = why, .size = size};
	int n = indent(&r);
	struct sl_node *all;
	if (r.failed)
		return NULL;
	if (n < 0)
		return node(&r, SL_MAP);
	if (r.at[n] == '{') {
		r.at += n;
		all = flow(&r);
		if (all)
			skip_lines(&r);
	} else {
		all = block(&r, n);
		n = r.failed ? -1 : indent(&r);
		r.at += n > 0 ? n : 0;
	}
	if (r.failed || !all)
		return NULL;
	if (*r.at)
		return refuse(&r, all, "there is something behind the end of the map");
	if (all->kind != SL_MAP)
		return refuse(&r, all, "expected \"key: value\"");
	return all;
}
