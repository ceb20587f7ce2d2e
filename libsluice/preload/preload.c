/*
 * libsluice-preload.so: brings the RC queue pairs of a program that knows nothing
 * of it to libsluice.so. docs/preload.md says what it does and does not.
 *
 * It puts itself before functions of libibverbs, by their names, and into the
 * operations of each context that is opened, where verbs.h finds them. The
 * originals are kept for each context. libsluice.so is loaded when the first RC queue pair is made.
 */
#define _GNU_SOURCE
#pragma GCC visibility push(default) /* what is declared there is to be found */
#include "../interpose.h"

#include <dlfcn.h>
#pragma GCC visibility pop
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the originals */

static struct {
	struct ibv_context *(*open_device)(struct ibv_device *);
	struct sluice_calls calls; /* calls that are symbols */
} real;

static void *(*real_dlopen(void))(const char *, int)
{
	static _Atomic(void *) found;
	void *f = atomic_load_explicit(&found, memory_order_relaxed);
	if (!f) {
		f = dlsym(RTLD_NEXT, "dlopen");
		atomic_store_explicit(&found, f, memory_order_relaxed);
	}
	return (void *(*)(const char *, int))f;
}

/*
 * For programs that load libibverbs themselves and look its functions up (NCCL does): they
 * get a handle of all that is loaded for all, in which this library comes before libibverbs.
 * Other files are the C library's to load; it is left by a jump, because it looks for them
 * where its caller says.
 */
void *dlopen(const char *file, int mode)
{
	const char *slash = file ? strrchr(file, '/') : NULL, *name = slash ? slash + 1 : file;
	if (!name || strncmp(name, "libibverbs.so", strlen("libibverbs.so")))
		return real_dlopen()(file, mode);
	void *lib = real_dlopen()(file, mode | RTLD_GLOBAL);
	return lib ? real_dlopen()(NULL, RTLD_LAZY) : NULL;
}

static void *find(const char *name, const char *version)
{
	void *f = dlvsym(RTLD_NEXT, name, version);
	if (f)
		return f;
	/* A plugin that was loaded with RTLD_LOCAL brought libibverbs along. */
	void *lib = real_dlopen()("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
	f = lib ? dlvsym(lib, name, version) : NULL;
	if (!f) {
		fprintf(stderr, "sluice: libibverbs.so.1 has no %s@%s\n", name, version);
		abort();
	}
	return f;
}

/* For contexts that are not hooked, such as imported ones. */
static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) { return ibv_post_send(qp, wr, bad); }
static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) { return ibv_post_recv(qp, wr, bad); }
static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc) { return ibv_poll_cq(cq, n, wc); }
static int req_notify_cq(struct ibv_cq *cq, int solicited) { return ibv_req_notify_cq(cq, solicited); }
static struct ibv_cq_ex *create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *a) { return ibv_create_cq_ex(c, a); }
static struct ibv_qp *create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *a) { return ibv_create_qp_ex(c, a); }

static void resolve(void)
{
	real.calls = (struct sluice_calls){
		.ibv.post_send = post_send,
		.ibv.post_recv = post_recv,
		.ibv.poll_cq = poll_cq,
		.ibv.req_notify_cq = req_notify_cq,
		.ibv.create_cq_ex = create_cq_ex,
		.create_qp_ex = create_qp_ex,
	};
#define FIND(to, name, version) (*(void **)&(to) = find(name, version))
	FIND(real.open_device, "ibv_open_device", "IBVERBS_1.1");
	FIND(real.calls.close_device, "ibv_close_device", "IBVERBS_1.1");
	FIND(real.calls.ibv.create_cq, "ibv_create_cq", "IBVERBS_1.1");
	FIND(real.calls.ibv.destroy_cq, "ibv_destroy_cq", "IBVERBS_1.1");
	FIND(real.calls.ibv.destroy_comp_channel, "ibv_destroy_comp_channel", "IBVERBS_1.0");
	FIND(real.calls.ibv.get_cq_event, "ibv_get_cq_event", "IBVERBS_1.1");
	FIND(real.calls.ibv.ack_cq_events, "ibv_ack_cq_events", "IBVERBS_1.1");
	FIND(real.calls.ibv.create_qp, "ibv_create_qp", "IBVERBS_1.1");
	FIND(real.calls.ibv.modify_qp, "ibv_modify_qp", "IBVERBS_1.1");
	FIND(real.calls.ibv.query_qp, "ibv_query_qp", "IBVERBS_1.1");
	FIND(real.calls.ibv.destroy_qp, "ibv_destroy_qp", "IBVERBS_1.1");
#undef FIND
}

static pthread_once_t resolved = PTHREAD_ONCE_INIT;

static const struct sluice_calls *originals(void)
{
	pthread_once(&resolved, resolve);
	return &real.calls;
}

/* ---- contexts */

/* A context that is open, with what it had. Never freed: a context's address comes
 * again, and readers take no lock. */
struct context {
	struct context *next;
	struct ibv_context *key;
	_Atomic bool open;
	_Atomic int wants; /* of wants */
	struct sluice_calls calls;
	struct ibv_context_ops ops; /* to be put back */
};

enum { BUCKETS = 64 };
static _Atomic(struct context *) contexts[BUCKETS];
static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;

static _Atomic(struct context *) *bucket_of(const struct ibv_context *c)
{
	return &contexts[((uintptr_t)c * 0x9e3779b97f4a7c15u) >> 58];
}

static struct context *context_of(const struct ibv_context *key)
{
	struct context *c = atomic_load_explicit(bucket_of(key), memory_order_acquire);
	while (c && c->key != key)
		c = c->next;
	return c && atomic_load_explicit(&c->open, memory_order_acquire) ? c : NULL;
}

const struct sluice_calls *sluice_preload_calls(struct ibv_context *key)
{
	struct context *c = context_of(key);
	return c ? &c->calls : originals();
}

/* ---- libsluice.so */

static struct {
	pthread_mutex_t lock;
	_Atomic bool loaded;
	bool failed;

	int (*wanted)(struct ibv_context *, bool *);
	void (*report)(void);
	struct ibv_qp *(*create_qp)(struct ibv_pd *, struct ibv_qp_init_attr *);
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *, struct ibv_qp_init_attr_ex *);
	int (*poll_sends)(struct ibv_cq *, int, struct ibv_wc *, bool *);
	bool (*took_event)(struct ibv_cq *);
	bool (*is_paced)(struct ibv_qp *);
	int (*modify_qp)(struct ibv_qp *, struct ibv_qp_attr *, int);
	int (*query_qp)(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *);
	int (*destroy_qp)(struct ibv_qp *);
	int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
	int (*poll_cq)(struct ibv_cq *, int, struct ibv_wc *);
	int (*req_notify_cq)(struct ibv_cq *, int);
	int (*get_cq_event)(struct ibv_comp_channel *, struct ibv_cq **, void **);
	void (*ack_cq_events)(struct ibv_cq *, unsigned int);
	int (*destroy_cq)(struct ibv_cq *);
	int (*destroy_comp_channel)(struct ibv_comp_channel *);
	int (*close_device)(struct ibv_context *);
	const char *(*error)(void);
} core = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool report;

/* Whether calls go to libsluice: it is loaded. */
static inline bool active(void) { return atomic_load_explicit(&core.loaded, memory_order_acquire); }

static void at_exit(void)
{
	if (report && active())
		core.report();
}

/* The library beside this one, or where SLUICE_LIBRARY or the loader finds it. */
static void *open_core(void)
{
	const char *named = getenv("SLUICE_LIBRARY");
	if (named && *named)
		return dlopen(named, RTLD_NOW | RTLD_LOCAL);
	Dl_info self;
	const char *slash;
	if (dladdr((void *)&core, &self) && self.dli_fname && (slash = strrchr(self.dli_fname, '/'))) {
		char path[4096];
		int n = snprintf(path, sizeof(path), "%.*s/libsluice.so.0", (int)(slash - self.dli_fname), self.dli_fname);
		void *lib = n < (int)sizeof(path) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
		if (lib)
			return lib;
	}
	return dlopen("libsluice.so.0", RTLD_NOW | RTLD_LOCAL);
}

static bool load_core(void)
{
	void *lib = open_core();
	if (!lib) {
		fprintf(stderr, "sluice: %s: install libsluice.so.0 beside libsluice-preload.so, or name it in SLUICE_LIBRARY\n", dlerror());
		return false;
	}
	static const struct {
		void *to;
		const char *name;
	} symbols[] = {
		{&core.wanted, "sluice_interpose_wanted"},
		{&core.report, "sluice_interpose_report"},
		{&core.create_qp, "sluice_interpose_create_qp"},
		{&core.create_qp_ex, "sluice_interpose_create_qp_ex"},
		{&core.poll_sends, "sluice_interpose_poll_sends"},
		{&core.took_event, "sluice_interpose_took_event"},
		{&core.is_paced, "sluice_interpose_is_paced"},
		{&core.modify_qp, "sluice_modify_qp"},
		{&core.query_qp, "sluice_query_qp"},
		{&core.destroy_qp, "sluice_destroy_qp"},
		{&core.post_send, "sluice_post_send"},
		{&core.poll_cq, "sluice_poll_cq"},
		{&core.req_notify_cq, "sluice_req_notify_cq"},
		{&core.get_cq_event, "sluice_get_cq_event"},
		{&core.ack_cq_events, "sluice_ack_cq_events"},
		{&core.destroy_cq, "sluice_destroy_cq"},
		{&core.destroy_comp_channel, "sluice_destroy_comp_channel"},
		{&core.close_device, "sluice_close_device"},
		{&core.error, "sluice_error"},
	};
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		*(void **)symbols[i].to = dlsym(lib, symbols[i].name);
		if (!*(void **)symbols[i].to) {
			fprintf(stderr, "sluice: libsluice.so.0 is of another version: it has no %s\n", symbols[i].name);
			return false;
		}
	}
	atexit(at_exit);
	return true;
}

/* Whether RC queue pairs of a context are to be paced: 1, 0, or -1 with errno. */
static int wanted(struct ibv_context *c)
{
	const char *off = getenv("SLUICE_DISABLE");
	if (!context_of(c) || (off && *off && strcmp(off, "0")))
		return 0;
	pthread_mutex_lock(&core.lock);
	if (!atomic_load(&core.loaded) && !core.failed) {
		core.failed = !load_core();
		atomic_store_explicit(&core.loaded, !core.failed, memory_order_release);
	}
	int r = core.failed ? -ENOENT : core.wanted(c, &report);
	pthread_mutex_unlock(&core.lock);
	if (r < 0) {
		errno = -r;
		return -1;
	}
	return r;
}

/* A queue pair that is refused would be refused without a word. */
static struct ibv_qp *explain(struct ibv_qp *qp)
{
	int e = errno;
	if (!qp && *core.error())
		fprintf(stderr, "sluice: %s\n", core.error());
	errno = e;
	return qp;
}

/* ---- operations of a context */

static int hook_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	if (active())
		return core.post_send(qp, wr, bad);
	return sluice_preload_calls(qp->context)->ibv.post_send(qp, wr, bad);
}

static int hook_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	if (active())
		return core.poll_cq(cq, n, wc);
	return sluice_preload_calls(cq->context)->ibv.poll_cq(cq, n, wc);
}

/* Whether a CQ may get queue pairs that are paced. It is asked each time that one is armed. */
static bool wants(struct ibv_context *context)
{
	enum { UNKNOWN, NO, YES };
	struct context *c = context_of(context);
	if (!c)
		return false;
	int known = atomic_load_explicit(&c->wants, memory_order_relaxed);
	if (known == UNKNOWN) {
		known = wanted(context) > 0 ? YES : NO;
		atomic_store_explicit(&c->wants, known, memory_order_relaxed);
	}
	return known == YES;
}

/* A program may arm a CQ before it makes the first queue pair for it. */
static int hook_req_notify_cq(struct ibv_cq *cq, int solicited)
{
	if (cq->channel ? wants(cq->context) : active())
		return core.req_notify_cq(cq, solicited);
	return sluice_preload_calls(cq->context)->ibv.req_notify_cq(cq, solicited);
}

/* Would complete on a CQ that the program does not see. */
static int hook_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	if (active() && core.is_paced(qp))
		return EOPNOTSUPP;
	struct context *c = context_of(qp->context);
	return c && c->ops.bind_mw ? c->ops.bind_mw(qp, mw, bind) : EOPNOTSUPP;
}

static struct ibv_qp *hook_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	if (attr->qp_type == IBV_QPT_RC && attr->comp_mask & IBV_QP_INIT_ATTR_PD && attr->send_cq && attr->recv_cq) {
		int w = wanted(context);
		if (w < 0)
			return NULL;
		if (w)
			return explain(core.create_qp_ex(context, attr));
	}
	return sluice_preload_calls(context)->create_qp_ex(context, attr);
}

/* ---- extended CQs */

enum { EX_BATCH = 16 };

/* An extended CQ, with what it had. While ours is set, the completion that is
 * being read is wc[at], of a paced send. */
struct cq_ex {
	struct cq_ex *next;
	struct ibv_cq_ex *key;
	_Atomic bool alive;
	pthread_mutex_t lock; /* from start_poll to end_poll */
	bool locked, ours, recv_first;
	int at, n;
	struct ibv_wc wc[EX_BATCH];
	struct ibv_cq_ex was; /* its functions */
};

static _Atomic(struct cq_ex *) cqs_ex[BUCKETS];

static _Atomic(struct cq_ex *) *cq_bucket(const void *c)
{
	return &cqs_ex[((uintptr_t)c * 0x9e3779b97f4a7c15u) >> 58];
}

static struct cq_ex *cq_ex_of(const void *key)
{
	struct cq_ex *c = atomic_load_explicit(cq_bucket(key), memory_order_acquire);
	while (c && (const void *)c->key != key)
		c = c->next;
	return c && atomic_load_explicit(&c->alive, memory_order_acquire) ? c : NULL;
}

static void show(struct cq_ex *c)
{
	c->key->wr_id = c->wc[c->at].wr_id;
	c->key->status = c->wc[c->at].status;
}

/* Completions of paced sends into c: 0, ENOENT if there are none, or another errno value. */
static int fetch(struct cq_ex *c)
{
	bool paced;
	int n = active() ? core.poll_sends((struct ibv_cq *)c->key, EX_BATCH, c->wc, &paced) : 0;
	if (n <= 0)
		return n ? -n : ENOENT;
	c->n = n;
	c->at = 0;
	show(c);
	return 0;
}

static int ex_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	struct cq_ex *c = cq_ex_of(cq);
	if (!active())
		return c->was.start_poll(cq, attr);
	/* What was fetched and not read is first. Sends and receives take turns. */
	pthread_mutex_lock(&c->lock);
	int r = ENOENT;
	c->ours = c->at < c->n;
	if (c->ours) {
		show(c);
		r = 0;
	} else if (c->recv_first) {
		c->recv_first = false;
		r = c->was.start_poll(cq, attr);
	}
	if (r == ENOENT) {
		r = fetch(c);
		c->ours = c->recv_first = !r;
		if (r == ENOENT)
			r = c->was.start_poll(cq, attr);
	}
	c->locked = !r;
	if (r)
		pthread_mutex_unlock(&c->lock);
	return r;
}

static int ex_next_poll(struct ibv_cq_ex *cq)
{
	struct cq_ex *c = cq_ex_of(cq);
	/* ENOENT says that the CQ is empty, and a program may sleep then: the other kind
	 * is looked for before. */
	if (c->ours) {
		if (++c->at < c->n) {
			show(c);
			return 0;
		}
		int r = fetch(c);
		if (r != ENOENT)
			return r;
		struct ibv_poll_cq_attr attr = {0};
		r = c->was.start_poll(cq, &attr);
		c->ours = r != 0;
		return r;
	}
	int r = c->was.next_poll(cq);
	if (r != ENOENT || !c->locked)
		return r;
	c->was.end_poll(cq); /* our end_poll has nothing to end then */
	c->ours = true;
	return fetch(c);
}

static void ex_end_poll(struct ibv_cq_ex *cq)
{
	struct cq_ex *c = cq_ex_of(cq);
	if (!c->ours)
		c->was.end_poll(cq);
	else if (c->at < c->n)
		c->at++; /* the one that was being read */
	c->ours = false;
	if (c->locked) { /* not, where polling began before the first paced queue pair */
		c->locked = false;
		pthread_mutex_unlock(&c->lock);
	}
}

#define READ(type, name, value)                                                \
	static type ex_read_##name(struct ibv_cq_ex *cq)                       \
	{                                                                      \
		struct cq_ex *c = cq_ex_of(cq);                                \
		return c->ours ? (value) : c->was.read_##name(cq);             \
	}
READ(enum ibv_wc_opcode, opcode, c->wc[c->at].opcode)
READ(uint32_t, vendor_err, c->wc[c->at].vendor_err)
READ(uint32_t, byte_len, c->wc[c->at].byte_len)
READ(__be32, imm_data, c->wc[c->at].imm_data)
READ(uint32_t, qp_num, c->wc[c->at].qp_num)
READ(uint32_t, src_qp, c->wc[c->at].src_qp)
READ(unsigned int, wc_flags, c->wc[c->at].wc_flags)
READ(uint32_t, slid, 0)
READ(uint8_t, sl, 0)
READ(uint8_t, dlid_path_bits, 0)
READ(uint64_t, completion_ts, 0)
READ(uint16_t, cvlan, 0)
READ(uint32_t, flow_tag, 0)
READ(uint64_t, completion_wallclock_ns, 0)

static struct ibv_cq_ex *hook_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_ex *cq = sluice_preload_calls(context)->ibv.create_cq_ex(context, attr);
	if (!cq)
		return NULL;
	pthread_mutex_lock(&contexts_lock);
	struct cq_ex *c = atomic_load(cq_bucket(cq));
	while (c && c->key != cq)
		c = c->next;
	if (!c) {
		c = calloc(1, sizeof(*c));
		if (!c) {
			pthread_mutex_unlock(&contexts_lock);
			return cq; /* its sends are polled by ibv_poll_cq alone */
		}
		c->key = cq;
		pthread_mutex_init(&c->lock, NULL);
		c->next = atomic_load(cq_bucket(cq));
		atomic_store_explicit(cq_bucket(cq), c, memory_order_release);
	}
	c->locked = c->ours = c->recv_first = false;
	c->at = c->n = 0;
	c->was = *cq;
	atomic_store_explicit(&c->alive, true, memory_order_release);
	pthread_mutex_unlock(&contexts_lock);
#define HOOK(f) do { if (cq->f) cq->f = ex_##f; } while (0)
	HOOK(start_poll);
	HOOK(next_poll);
	HOOK(end_poll);
	HOOK(read_opcode);
	HOOK(read_vendor_err);
	HOOK(read_byte_len);
	HOOK(read_imm_data);
	HOOK(read_qp_num);
	HOOK(read_src_qp);
	HOOK(read_wc_flags);
	HOOK(read_slid);
	HOOK(read_sl);
	HOOK(read_dlid_path_bits);
	HOOK(read_completion_ts);
	HOOK(read_cvlan);
	HOOK(read_flow_tag);
	HOOK(read_completion_wallclock_ns);
#undef HOOK
	return cq;
}

/* ---- functions of libibverbs */

/* The end of a context: its address may be another's as soon as it is free. */
static int close_context(struct ibv_context *context)
{
	struct context *c = context_of(context);
	if (c)
		atomic_store(&c->open, false);
	int r = real.calls.close_device(context);
	if (r && c)
		atomic_store(&c->open, true);
	return r;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	originals();
	struct ibv_context *context = real.open_device(device);
	if (!context)
		return NULL;
	pthread_mutex_lock(&contexts_lock);
	struct context *c = atomic_load(bucket_of(context));
	while (c && c->key != context)
		c = c->next;
	if (!c) {
		c = calloc(1, sizeof(*c));
		if (!c) {
			pthread_mutex_unlock(&contexts_lock);
			return context; /* as it is */
		}
		c->key = context;
		c->next = atomic_load(bucket_of(context));
		atomic_store_explicit(bucket_of(context), c, memory_order_release);
	}
	struct ibv_context_ops *ops = &context->ops;
	c->ops = *ops;
	c->calls = real.calls;
	c->calls.close_device = close_context;
	c->calls.ibv.post_send = ops->post_send;
	c->calls.ibv.post_recv = ops->post_recv;
	c->calls.ibv.poll_cq = ops->poll_cq;
	c->calls.ibv.req_notify_cq = ops->req_notify_cq;
	struct verbs_context *v = verbs_get_ctx_op(context, create_qp_ex);
	c->calls.create_qp_ex = v ? v->create_qp_ex : NULL;
	if (v)
		v->create_qp_ex = hook_create_qp_ex;
	v = verbs_get_ctx_op(context, create_cq_ex);
	c->calls.ibv.create_cq_ex = v ? v->create_cq_ex : NULL;
	if (v)
		v->create_cq_ex = hook_create_cq_ex;
	atomic_store_explicit(&c->open, true, memory_order_release);
	ops->post_send = hook_post_send;
	ops->poll_cq = hook_poll_cq;
	ops->req_notify_cq = hook_req_notify_cq;
	if (ops->bind_mw)
		ops->bind_mw = hook_bind_mw;
	pthread_mutex_unlock(&contexts_lock);
	return context;
}

int ibv_close_device(struct ibv_context *context)
{
	struct context *c = context_of(context);
	if (!c)
		return originals()->close_device(context);
	return active() ? core.close_device(context) : c->calls.close_device(context);
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct cq_ex *x = cq_ex_of(cq);
	if (x)
		atomic_store(&x->alive, false); /* its address may be another's as soon as it is free */
	int r = active() ? core.destroy_cq(cq) : originals()->ibv.destroy_cq(cq);
	if (r && x)
		atomic_store(&x->alive, true);
	return r;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	return active() ? core.destroy_comp_channel(channel) : originals()->ibv.destroy_comp_channel(channel);
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	while (!active()) {
		int r = originals()->ibv.get_cq_event(channel, cq, cq_context);
		/* The first paced queue pair may have come meanwhile. */
		if (r || !active() || !core.took_event(*cq))
			return r;
	}
	return core.get_cq_event(channel, cq, cq_context);
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	if (active())
		core.ack_cq_events(cq, n);
	else
		originals()->ibv.ack_cq_events(cq, n);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	if (attr->qp_type == IBV_QPT_RC && attr->send_cq && attr->recv_cq) {
		int w = wanted(pd->context);
		if (w < 0)
			return NULL;
		if (w)
			return explain(core.create_qp(pd, attr));
	}
	return originals()->ibv.create_qp(pd, attr);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return active() ? core.modify_qp(qp, attr, mask) : originals()->ibv.modify_qp(qp, attr, mask);
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	return active() ? core.query_qp(qp, attr, mask, init) : originals()->ibv.query_qp(qp, attr, mask, init);
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	return active() ? core.destroy_qp(qp) : originals()->ibv.destroy_qp(qp);
}
