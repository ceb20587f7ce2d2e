/* How queue pairs are paced, and what says so: struct sluice_options, the environment, a
 * file. */
#ifndef SLUICE_SETTINGS_H
#define SLUICE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../internal/ccore/src/sluice_core.h"
#include "keys.h"
#include "sluice.h"

/* Times are picoseconds, rates bits per second. Defaults are resolved. */
struct sl_settings {
	char cc[32]; /* the engine's name, "" for none */
	enum sluice_engine_kind kind;
	union sl_engine_config config;
	int64_t rate; /* at most which a queue pair sends; 0 is the line rate */
	int64_t segment, batch, max_outstanding, line_rate, base_rtt, nic_rate, calibrate_every, catch_up;
	int64_t group; /* an enum sl_group_choice */
	bool progress_thread, bypass;
};

struct sl_environment {
	struct sl_settings settings; /* first, for offsets of sl_variables */
	char *devices; /* patterns, each ended by a newline; NULL for all */
	bool debug, stats, metrics;
};

/* 0, or EINVAL with words (sl_fail). */
int sl_settings_options(const struct sluice_options *, struct sl_settings *);
int sl_settings_environment(struct sl_environment *);
/* What a program that calls the library takes from the environment: SLUICE_METRICS. */
int sl_settings_metrics(bool *);

bool sl_settings_equal(const struct sl_settings *, const struct sl_settings *);
bool sl_settings_matches(const struct sl_environment *, const char *device);
/* How statistics call the engine. */
void sl_settings_engine_name(const struct sl_settings *, char *room, size_t size);
/* What the engine requires and no device of libibverbs reports, or NULL. */
const char *sl_settings_lacks(const struct sl_settings *);
/* Makes the engine of one queue pair, if there is one: *some. 0, or EINVAL with words. */
int sl_settings_start(const struct sl_settings *, struct sluice_engine *, struct sluice_env, bool *some);
const char *const *sl_settings_schemes(void);

/* ---- keys.c, generated from the engines' configurations (go generate ./libsluice) */

enum sl_type { SL_TIME, SL_RATE, SL_BYTES, SL_INT, SL_FLOAT, SL_BOOL, SL_CHOICE };

struct sl_key {
	const char *name;
	enum sl_type type;
	uint16_t offset;
	bool zero;        /* 0 is taken beside the range */
	int64_t usual;    /* what a 0 is replaced by before it is checked */
	uint8_t floor;    /* the key that it is no less than unless it is such a 0: its place from 1; 0 for none */
	const char *want; /* what it has to be; NULL if it is anything */
	double low, high; /* of SL_FLOAT */
	int64_t least, most; /* of others */
	const char *const *choices; /* of SL_CHOICE, which is the place of one, until NULL */
};

struct sl_scheme {
	const char *name;
	enum sluice_engine_kind kind;
	const char *refused; /* why it can't be had at all; NULL if it can */
	const char *lacks;   /* what it requires and no device reports; NULL for nothing */
	const struct sl_key *keys;
	size_t n_keys;
	void (*defaults)(union sl_engine_config *); /* NULL if there are no keys */
	void (*start)(struct sluice_engine *, const union sl_engine_config *, struct sluice_env);
};

extern const struct sl_scheme sl_known_schemes[];
extern const size_t sl_known_schemes_n;

/* What the preload library's variables and file set, in struct sl_environment; those with a
 * range lie in its settings, which struct sluice_options sets too. */
extern const struct sl_key sl_variables[];
extern const size_t sl_variables_n;
/* How late a segment may leave without costing its flow rate, and at a fixed rate. */
extern const int64_t sl_catch_up, sl_fixed_rate_catch_up;

/* ---- check.c: 0, or EINVAL with words, as Validate of the engine and of package paced has them */

int sl_check(const struct sl_scheme *, const union sl_engine_config *);
/* What depends on the port, too. */
int sl_check_env(enum sluice_engine_kind, const union sl_engine_config *, const struct sluice_env *);
/* Fills in what 0 stands for, too. */
int sl_check_settings(struct sl_settings *);

/* ---- units.c */

/* The value of a text such as "60us" or "10Gbps", or false with why. */
bool sl_parse_unit(enum sl_type, const char *text, int64_t *value, char *why, size_t size);
bool sl_parse_float(const char *text, double *value);
/* The value in the largest unit that suits it. */
const char *sl_print_unit(enum sl_type, int64_t value, char *room, size_t size);
/* The shortest number that is read as the value again, as Go prints it. */
const char *sl_print_float(double value, char *room, size_t size);

/* ---- yaml.c: the part of YAML that configurations are written in */

enum sl_node_kind { SL_SCALAR, SL_MAP, SL_LIST };

struct sl_node {
	enum sl_node_kind kind;
	bool quoted;
	char *key; /* in a map */
	char *text; /* of a scalar */
	struct sl_node *first, *next;
};

/* A map, or NULL with why. A text without anything is an empty map. */
struct sl_node *sl_yaml_parse(const char *text, char *why, size_t size);
void sl_yaml_free(struct sl_node *);

#endif
