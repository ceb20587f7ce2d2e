/* Groups: queue pairs of one shard that one engine steers, in place of their own. */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <stdlib.h>

/* ---- which queue pairs are one */

/* False for no group. */
static bool key_of(const struct sl_qp *q, struct sl_group_key *k)
{
	memset(k, 0, sizeof(*k));
	if (q->named) {
		memcpy(k->name, q->group_name, sizeof(k->name));
		return k->name[0] != 0;
	}
	switch (q->shard->set.group) {
	case SL_GROUP_NONE:
		return false;
	case SL_GROUP_PATH:
		k->flow_label = q->flow_label;
		/* fallthrough */
	case SL_GROUP_DESTINATION:
		k->peer = q->peer;
		k->lid = q->lid;
	}
	k->port = q->port;
	return true;
}

bool sl_join(struct sl_qp *q, struct sl_group **fresh, bool engine, const struct sl_now *now, int64_t line, int64_t limit)
{
	struct sl_shard *s = q->shard;
	struct sl_group_key k;
	if (!key_of(q, &k))
		return false;
	struct sl_group *g = s->groups;
	while (g && memcmp(&g->key, &k, sizeof(k)))
		g = g->next;
	if (!g) {
		g = *fresh;
		*fresh = NULL;
		g->key = k;
		/* sl_make_room left room for one of each queue pair. */
		sluice_core_add_group(&s->core, &g->core, sluice_limiter_add(&s->limiter, SLUICE_LIMITER_UNPACED).value, line);
		sluice_core_group_start(&g->core, now->t, engine ? &g->engine : NULL, s->set.segment, limit);
		g->next = s->groups;
		s->groups = g;
	}
	q->group = g;
	sluice_core_qp_join(&q->core, &q->place, &g->core, q->weight, q->class, 0);
	return true;
}

void sl_quit(struct sl_qp *q)
{
	struct sl_group *g = q->group;
	q->group = NULL;
	if (!sluice_core_qp_leave(&q->core))
		return;
	struct sl_group **p = &q->shard->groups;
	while (*p != g)
		p = &(*p)->next;
	*p = g->next;
	sluice_core_remove_group(&q->shard->core, &g->core);
	free(g);
}

/* ---- what the program says */

static int other(const char *call) { return sl_fail(EINVAL, "%s: the queue pair is not one that sluice made", call); }

int sluice_qp_set_share(struct ibv_qp *qp, int weight, int service_class)
{
	sl_error_text[0] = 0;
	struct sl_qp *q = sl_qp_of(qp);
	if (!q)
		return other("qp_set_share");
	if (weight < 1 || weight > SLUICE_MAX_WEIGHT)
		return sl_fail(EINVAL, "qp_set_share qp %u of %s: weight %d: choose 1 to %d", qp->qp_num, q->shard->dev->name, weight, SLUICE_MAX_WEIGHT);
	if (service_class < 0 || service_class >= SLUICE_CLASSES)
		return sl_fail(EINVAL, "qp_set_share qp %u of %s: class %d: choose 0 to %d", qp->qp_num, q->shard->dev->name, service_class, SLUICE_CLASSES - 1);
	int state;
	sl_lock(q->shard, &state);
	q->weight = weight;
	q->class = service_class;
	if (q->group)
		sluice_core_member_set_share(&q->place, weight, service_class);
	sl_unlock(q->shard, state);
	return 0;
}

int sluice_qp_set_group(struct ibv_qp *qp, const char *name)
{
	sl_error_text[0] = 0;
	struct sl_qp *q = sl_qp_of(qp);
	if (!q)
		return other("qp_set_group");
	if (!sl_shared(q->shard))
		return sl_fail(EINVAL, "qp_set_group qp %u of %s: it was made without groups: set the option group, to \"port\" for the queue pairs that have no name", qp->qp_num, q->shard->dev->name);
	if (name && strlen(name) >= SL_GROUP_NAME)
		return sl_fail(EINVAL, "qp_set_group qp %u of %s: a name of %zu bytes: choose one of at most %d", qp->qp_num, q->shard->dev->name, strlen(name), SL_GROUP_NAME - 1);
	int state, r = 0;
	int cancel = sl_enter();
	pthread_mutex_lock(&q->modifying); /* no change of state meanwhile reads it */
	sl_lock(q->shard, &state);
	switch (sluice_core_qp_state(&q->core)) {
	case IBV_QPS_RESET:
	case IBV_QPS_INIT:
	case IBV_QPS_RTR:
		q->named = name != NULL;
		memset(q->group_name, 0, sizeof(q->group_name));
		if (name)
			memcpy(q->group_name, name, strlen(name));
		break;
	default:
		r = EBUSY;
	}
	sl_unlock(q->shard, state);
	pthread_mutex_unlock(&q->modifying);
	sl_leave(cancel);
	return r ? sl_fail(r, "qp_set_group qp %u of %s: it is past RTR: name its group before, or take it to RESET first", qp->qp_num, q->shard->dev->name) : 0;
}

int sluice_query_group(struct ibv_qp *qp, struct sluice_group_stats *stats)
{
	sl_error_text[0] = 0;
	if (!stats || stats->size != sizeof(*stats))
		return sl_fail(EINVAL, "query_group: size is not that of struct sluice_group_stats: set it, and build with this version's header");
	struct sl_qp *q = sl_qp_of(qp);
	if (!q)
		return other("query_group");
	memset(stats, 0, sizeof(*stats));
	stats->size = sizeof(*stats);
	int state;
	sl_lock(q->shard, &state);
	if (q->group) {
		struct sluice_control c = sluice_core_group_control(&q->group->core);
		stats->members = (uint32_t)sluice_core_group_members(&q->group->core);
		stats->rate = (uint64_t)(q->cap_rate && c.rate > q->cap_rate ? q->cap_rate : c.rate);
		stats->window = c.window == SLUICE_UNLIMITED ? 0 : (uint64_t)c.window;
		stats->outstanding = (uint64_t)sluice_core_group_outstanding(&q->group->core);
	}
	sl_unlock(q->shard, state);
	return 0;
}
