/* With SLUICE_METRICS=1 a program's queue pairs are to be seen while it runs: a thread serves
 * them, in Prometheus' text format over HTTP, on DIR/PID.sock, where `sluice exporter` looks.
 * Names, labels and buckets are those of Go programs (package metrics). */
#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	PATIENCE = 2,        /* seconds that a client has */
	REQUEST = 4096,      /* bytes of a request at most */
	FIRST_BUCKET = 9,    /* of those exported: every other one, up to the last */
	LAST_BUCKET = 77,
	SOCKET_MODE = 0660,  /* to connect is to write: who may enter the directory is its to say */
};

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static bool started;
static char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* of the socket; empty if there is none */
static pid_t owner;                                            /* of path */
static int heard = -1;                                         /* the socket, for a child to close */

struct seen {
	char device[64], engine[48];
	uint32_t qpn;
	sluice_ib_qp_state state;
	int64_t rate, window, outstanding; /* window: 0 for none */
	uint64_t messages, failed, segments, bytes, rtt_sum;
	uint64_t rtt[SL_RTT_BUCKETS];
};

struct sight {
	struct seen *all;
	size_t n, room;
};

static void see(struct sight *v, struct sl_qp *q)
{
	if (v->n == v->room) {
		size_t room = v->room ? 2 * v->room : 64;
		struct seen *all = realloc(v->all, room * sizeof(*all));
		if (!all)
			return;
		v->all = all;
		v->room = room;
	}
	struct seen *s = &v->all[v->n++];
	struct sluice_control c = sluice_core_qp_control(&q->core);
	struct sluice_core_qp_finished_result f = sluice_core_qp_finished(&q->core);
	*s = (struct seen){
		.qpn = q->qp->qp_num, .state = sluice_core_qp_state(&q->core), .outstanding = sluice_core_qp_outstanding(&q->core),
		.rate = q->cap_rate && c.rate > q->cap_rate ? q->cap_rate : c.rate, .window = c.window == SLUICE_UNLIMITED ? 0 : c.window,
		.messages = f.all, .failed = f.failed, .segments = q->segments, .bytes = q->bytes, .rtt_sum = q->rtt_sum,
	};
	snprintf(s->device, sizeof(s->device), "%s", q->shard->dev->name);
	sl_settings_engine_name(&q->shard->set, s->engine, sizeof(s->engine));
	memcpy(s->rtt, q->rtt, sizeof(s->rtt));
}

/* Looks at all queue pairs, at one of a shard at a time: nobody waits for the rest. */
static void look(struct sight *v)
{
	pthread_mutex_lock(&sl_making);
	for (struct sl_device *d = sl_first_device(); d; d = d->next) {
		pthread_mutex_lock(&d->list);
		for (struct sl_shard *s = d->shards; s; s = s->next) {
			uint32_t n = 1;
			for (uint32_t i = 0; i < n; i++) {
				int state;
				sl_lock(s, &state);
				n = s->n_qps;
				if (i < n && s->qps[i] && !s->qps[i]->leaving)
					see(v, s->qps[i]);
				sl_unlock(s, state);
			}
		}
		pthread_mutex_unlock(&d->list);
	}
	pthread_mutex_unlock(&sl_making);
}

static const char *state_name(sluice_ib_qp_state s)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
	return s < sizeof(names) / sizeof(names[0]) ? names[s] : "UNKNOWN";
}

static void family(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP sluice_%s %s\n# TYPE sluice_%s %s\n", name, help, name, type);
}

static void write_rtts(FILE *out, const struct seen *s)
{
	uint64_t n = 0;
	for (int i = 0; i < SL_RTT_BUCKETS; i++) {
		n += s->rtt[i];
		if (i >= FIRST_BUCKET && i <= LAST_BUCKET && (i - FIRST_BUCKET) % 2 == 0)
			fprintf(out, "sluice_qp_rtt_seconds_bucket{device=\"%s\",qpn=\"%#06x\",le=\"%.9g\"} %llu\n", s->device, s->qpn,
				(double)sl_rtt_bound(i) / 1e12, (unsigned long long)n);
	}
	fprintf(out, "sluice_qp_rtt_seconds_bucket{device=\"%s\",qpn=\"%#06x\",le=\"+Inf\"} %llu\n", s->device, s->qpn, (unsigned long long)n);
	fprintf(out, "sluice_qp_rtt_seconds_sum{device=\"%s\",qpn=\"%#06x\"} %.9f\n", s->device, s->qpn, (double)s->rtt_sum / 1e9);
	fprintf(out, "sluice_qp_rtt_seconds_count{device=\"%s\",qpn=\"%#06x\"} %llu\n", s->device, s->qpn, (unsigned long long)n);
}

static void write_all(FILE *out, const struct sight *v)
{
	static const struct {
		const char *name, *type, *help;
		size_t at;
	} numbers[] = {
		{"qp_rate_bps", "gauge", "Rate that the engine allows, payload bits per second.", offsetof(struct seen, rate)},
		{"qp_window_bytes", "gauge", "Window that the engine allows; absent where it sets none.", offsetof(struct seen, window)},
		{"qp_outstanding_bytes", "gauge", "Payload bytes that are with the NIC.", offsetof(struct seen, outstanding)},
		{"qp_messages_total", "counter", "Requests that completed, however.", offsetof(struct seen, messages)},
		{"qp_failed_total", "counter", "Requests that completed with an error.", offsetof(struct seen, failed)},
		{"qp_segments_total", "counter", "Segments given to the NIC.", offsetof(struct seen, segments)},
		{"qp_segment_bytes_total", "counter", "Payload bytes of the segments given to the NIC.", offsetof(struct seen, bytes)},
	};
	if (!v->n)
		return;
	family(out, "qp_info", "gauge", "A paced queue pair, its rate engine and its state; always 1.");
	for (size_t i = 0; i < v->n; i++)
		fprintf(out, "sluice_qp_info{device=\"%s\",qpn=\"%#06x\",engine=\"%s\",state=\"%s\"} 1\n", v->all[i].device, v->all[i].qpn,
			*v->all[i].engine ? v->all[i].engine : "none", state_name(v->all[i].state));
	for (size_t k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++) {
		family(out, numbers[k].name, numbers[k].type, numbers[k].help);
		for (size_t i = 0; i < v->n; i++) {
			int64_t value;
			memcpy(&value, (const char *)&v->all[i] + numbers[k].at, sizeof(value));
			if (numbers[k].at != offsetof(struct seen, window) || value > 0)
				fprintf(out, "sluice_%s{device=\"%s\",qpn=\"%#06x\"} %lld\n", numbers[k].name, v->all[i].device, v->all[i].qpn,
					(long long)value);
		}
	}
	family(out, "qp_rtt_seconds", "histogram", "Round trips of segments, serialisation included.");
	for (size_t i = 0; i < v->n; i++)
		write_rtts(out, &v->all[i]);
}

static bool transmit(int fd, const char *data, size_t n)
{
	while (n) {
		ssize_t k = send(fd, data, n, MSG_NOSIGNAL);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return false; /* it has gone, or does not read */
		data += k;
		n -= (size_t)k;
	}
	return true;
}

/* Reads a request, of which only that it is whole counts. */
static bool asked(int fd)
{
	char b[REQUEST];
	for (size_t n = 0; n < sizeof(b) - 1;) {
		ssize_t k = recv(fd, b + n, sizeof(b) - 1 - n, 0);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return false;
		n += (size_t)k;
		b[n] = 0;
		if (strstr(b, "\r\n\r\n"))
			return true;
	}
	return false;
}

static void answer(int fd)
{
	struct timeval patience = {.tv_sec = PATIENCE};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (!asked(fd))
		return;
	char *body = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&body, &n);
	if (!out)
		return;
	struct sight v = {.all = NULL};
	look(&v);
	write_all(out, &v);
	free(v.all);
	if (!fclose(out)) {
		char head[160];
		int k = snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", n);
		if (transmit(fd, head, (size_t)k))
			transmit(fd, body, n);
	}
	free(body);
}

/* The thread's socket: a program that closes all its descriptors may open others in its place. */
struct listener {
	int fd;
	dev_t dev;
	ino_t ino;
};

static bool own(const struct listener *l)
{
	struct stat st;
	return !fstat(l->fd, &st) && S_ISSOCK(st.st_mode) && st.st_dev == l->dev && st.st_ino == l->ino;
}

static void *serve(void *arg)
{
	struct listener *l = arg;
	locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* the program's may have another decimal point */
	if (c)
		uselocale(c);
	prctl(PR_SET_NAME, "sluice-metrics");
	for (;;) {
		struct pollfd p = {.fd = l->fd, .events = POLLIN};
		if (poll(&p, 1, 1000) < 0 && errno != EINTR)
			break;
		if (!own(l))
			break;
		if (!p.revents)
			continue;
		int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0) {
			answer(fd);
			close(fd);
		} else if (errno != EINTR && errno != ECONNABORTED && errno != EAGAIN) {
			poll(NULL, 0, 100); /* out of descriptors or memory: later there may be some */
		}
	}
	heard = -1; /* the number may be the program's by now */
	free(l);
	return NULL;
}

/* The directory, by the rules of package metrics. */
static bool directory(char *dir, size_t size)
{
	const char *v = secure_getenv("SLUICE_RUN");
	int n;
	if (v && *v)
		n = snprintf(dir, size, "%s", v);
	else if ((v = secure_getenv("XDG_RUNTIME_DIR")) && *v)
		n = snprintf(dir, size, "%s/sluice", v);
	else if (!geteuid())
		n = snprintf(dir, size, "/run/sluice");
	else
		n = snprintf(dir, size, "%s/sluice-%u", (v = secure_getenv("TMPDIR")) && *v ? v : "/tmp", getuid());
	return n > 0 && (size_t)n < size;
}

/* Makes a directory and those above it, for their owner alone. */
static int make_directory(const char *dir)
{
	char part[sizeof(path)];
	snprintf(part, sizeof(part), "%s", dir);
	for (char *p = part + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		if (mkdir(part, 0700) && errno != EEXIST)
			return errno;
		*p = '/';
	}
	return mkdir(part, 0700) && errno != EEXIST ? errno : 0;
}

/* The socket gets its name when it listens: who looks for those of processes that were killed
 * would take one that doesn't for such. */
static int listen_at(const char *dir, struct listener *l)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct stat st;
	int err = make_directory(dir);
	if (err)
		return err;
	if (stat(dir, &st))
		return errno;
	if (!S_ISDIR(st.st_mode))
		return ENOTDIR;
	if (st.st_uid && st.st_uid != geteuid())
		return EACCES; /* whoever owns it could answer in others' names */
	if (snprintf(path, sizeof(path), "%s/%d.sock", dir, (int)getpid()) >= (int)sizeof(path) ||
	    snprintf(at.sun_path, sizeof(at.sun_path), "%s/%d.sock.new", dir, (int)getpid()) >= (int)sizeof(at.sun_path)) {
		path[0] = 0;
		return ENAMETOOLONG;
	}
	unlink(at.sun_path);
	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->fd < 0 || bind(l->fd, (struct sockaddr *)&at, sizeof(at)) || listen(l->fd, 8) || chmod(at.sun_path, SOCKET_MODE) ||
	    fstat(l->fd, &st) || rename(at.sun_path, path)) {
		err = errno;
		if (l->fd >= 0)
			close(l->fd);
		unlink(at.sun_path);
		path[0] = 0;
		return err;
	}
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	owner = getpid();
	heard = l->fd;
	return 0;
}

static bool is_asked_for(void)
{
	const char *v = secure_getenv("SLUICE_METRICS");
	if (!v || !*v || !strcmp(v, "0") || !strcasecmp(v, "false"))
		return false;
	if (!strcmp(v, "1") || !strcasecmp(v, "true"))
		return true;
	fprintf(stderr, "sluice: SLUICE_METRICS=%s: set it to 1 or 0\n", v);
	return false;
}

/* The thread runs to the end of the process: so must its code. */
static void stay(void)
{
	Dl_info self;
	if (dladdr((void *)&started, &self) && self.dli_fname)
		dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

void sl_publish(void)
{
	if (SL_ATOMIC_GET(started))
		return;
	pthread_mutex_lock(&starting);
	if (!started && is_asked_for()) {
		char dir[sizeof(path)];
		struct listener *l = malloc(sizeof(*l));
		int err = !l ? ENOMEM : directory(dir, sizeof(dir)) ? listen_at(dir, l) : ENAMETOOLONG;
		if (!err) {
			pthread_t thread;
			sigset_t all, before;
			sigfillset(&all); /* signals are for the program's threads */
			pthread_sigmask(SIG_SETMASK, &all, &before);
			err = pthread_create(&thread, NULL, serve, l);
			pthread_sigmask(SIG_SETMASK, &before, NULL);
			if (err) {
				close(l->fd);
				heard = -1;
			} else {
				pthread_detach(thread);
				stay();
			}
		}
		if (err) {
			free(l);
			if (path[0])
				unlink(path);
			path[0] = 0;
			fprintf(stderr, "sluice: SLUICE_METRICS: %s: %s: name another directory with SLUICE_RUN\n", dir, strerror(err));
		}
	}
	SL_ATOMIC_SET(started, true);
	pthread_mutex_unlock(&starting);
}

/* In the child of a fork, which has a name of its own. */
void sl_publish_forget(void)
{
	pthread_mutex_init(&starting, NULL);
	started = false;
	path[0] = 0;
	if (heard >= 0)
		close(heard); /* or it would be heard after its process is gone */
	heard = -1;
}

__attribute__((destructor)) static void stop(void)
{
	if (path[0] && owner == getpid())
		unlink(path);
}
