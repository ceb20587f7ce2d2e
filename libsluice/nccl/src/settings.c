#include "plugin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* number reads a variable of whole numbers; one that is not set leaves *value. */
static bool number(const char *name, int least, int most, int *value)
{
	const char *text = getenv(name);
	char *end;
	long n;

	if (!text || !*text)
		return true;
	errno = 0;
	n = strtol(text, &end, 0);
	if (errno || *end || n < least || n > most) {
		WARN("%s=%s: expected a whole number from %d to %d", name, text, least, most);
		return false;
	}
	*value = (int)n;
	return true;
}

/* size reads a variable in bytes, KiB or MiB. */
static bool size(const char *name, long least, long most, int *value)
{
	const char *text = getenv(name);
	char *end;
	long n;

	if (!text || !*text)
		return true;
	errno = 0;
	n = strtol(text, &end, 10);
	if (!strcmp(end, "KiB") && n >= 0 && n <= most)
		n <<= 10;
	else if (!strcmp(end, "MiB") && n >= 0 && n <= most)
		n <<= 20;
	else if (*end)
		errno = EINVAL;
	if (errno || n < least || n > most) {
		WARN("%s=%s: expected a size from %ld to %ld bytes, such as 64KiB", name, text, least, most);
		return false;
	}
	*value = (int)n;
	return true;
}

static bool names(const char *name, struct name_list *l)
{
	const char *text = getenv(name);

	memset(l, 0, sizeof *l);
	if (!text || !*text)
		return true;
	l->given = true;
	if (*text == '^') {
		l->exclude = true;
		text++;
	}
	if (*text == '=') {
		l->match = MATCH_EXACT;
		text++;
	}
	if ((size_t)snprintf(l->text, sizeof l->text, "%s", text) < sizeof l->text)
		return true;
	WARN("%s: longer than %zu characters", name, sizeof l->text - 1);
	return false;
}

bool listed(const struct name_list *l, const char *name, int port)
{
	bool found = false;

	if (!l->given)
		return true;
	for (const char *entry = l->text; *entry && !found;) {
		size_t n = strcspn(entry, ","), len = strcspn(entry, ":,");

		found = len && !strncmp(name, entry, len) && (l->match == MATCH_PREFIX || !name[len]);
		if (found && port && entry[len] == ':')
			found = atoi(entry + len + 1) == port;
		entry += n + (entry[n] == ',');
	}
	return found != l->exclude;
}

bool settings_read(struct settings *s)
{
	const char *balance = getenv("SLUICE_NCCL_BALANCE");
	int disabled = 0, failover = 1, failback = 1;

	*s = (struct settings){
		.gid_index = -1, .traffic_class = -1, .timeout = 20, .retries = 7,
		.qps = 4, .piece = 64 << 10, .flow_label = -1, .probe = 1000,
	};
	if (balance && !strcmp(balance, "roundrobin")) {
		s->balance = BALANCE_ROUNDROBIN;
	} else if (balance && *balance && strcmp(balance, "delay")) {
		WARN("SLUICE_NCCL_BALANCE=%s: expected delay or roundrobin", balance);
		return false;
	}
	if (!names("NCCL_IB_HCA", &s->hcas) || !names("NCCL_SOCKET_IFNAME", &s->interfaces) ||
	    !number("NCCL_IB_DISABLE", 0, 1, &disabled) || !number("NCCL_IB_GID_INDEX", -1, 255, &s->gid_index) ||
	    !number("NCCL_IB_TC", -1, 255, &s->traffic_class) || !number("NCCL_IB_SL", -1, 15, &s->service_level) ||
	    !number("NCCL_IB_TIMEOUT", 1, 31, &s->timeout) || !number("NCCL_IB_RETRY_CNT", 0, 7, &s->retries) ||
	    !number("SLUICE_NCCL_QPS", 1, MAX_QPS, &s->qps) || !number("SLUICE_NCCL_FLOW_LABEL", -1, 0xfffff, &s->flow_label) ||
	    !number("NCCL_IB_RESILIENCY_PORT_FAILOVER", 0, 1, &failover) || !number("NCCL_IB_RESILIENCY_PORT_RECOVERY", 0, 1, &failback) ||
	    !number("SLUICE_NCCL_PROBE", 1, 60000, &s->probe) ||
	    !size("SLUICE_NCCL_CHUNK", 4 << 10, 16 << 20, &s->piece))
		return false;
	s->disabled = disabled;
	s->failover = failover;
	s->failback = failover && failback;
	if (s->service_level < 0)
		s->service_level = 0;
	return true;
}
