/*
 * A program that publishes what its queue pairs do, for publish_test.go: publish KIND. It says
 * "ready PID" when a scrape has something to see, and ends with its input.
 */
#define main hooks_main
#include "hooks.c"
#undef main
#include <sys/socket.h>

enum { REQUESTS = 20, LENGTH = 100000 };

/* A pair whose first queue pair has done REQUESTS. */
static struct pair *worked(const char *device)
{
	struct pair *p = setup_on(device, 0);
	struct ibv_wc wc;
	for (uint64_t i = 0; i < REQUESTS; i++) {
		post_one(p, i, LENGTH);
		await(p->cq[0], &wc, 1);
	}
	return p;
}

static void say(const char *what)
{
	printf("%s %d\n", what, (int)getpid());
	fflush(stdout);
}

static void await_end(void)
{
	char c;
	while (read(0, &c, 1) > 0)
		;
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "";
	alarm(3 * LIMIT);
	if (!strcmp(kind, "idle")) { /* without a queue pair */
		struct ibv_context *c = open_device("fake0");
		say("ready");
		await_end();
		CHECK(!ibv_close_device(c));
		return 0;
	}
	struct pair *p = worked("fake0");
	if (!strcmp(kind, "twice")) { /* a second context of the device */
		struct pair *second = worked("fake0");
		say("ready");
		await_end();
		teardown(second);
	} else if (!strcmp(kind, "closes")) { /* as a daemon does, and takes the numbers for itself */
		for (int fd = 3; fd < 256; fd++)
			close(fd);
		for (int i = 0; i < 32; i++)
			CHECK(socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
		say("ready");
		await_end();
		exit(0); /* the device's descriptors are closed */
	} else if (!strcmp(kind, "forks")) {
		if (!fork()) {
			say("heir"); /* has nothing of its own yet */
			struct pair *own = worked("fake1");
			say("ready");
			pause();
			teardown(own);
		}
		await_end();
	} else if (!strcmp(kind, "execs")) {
		execl(argv[0], argv[0], "worked", (char *)NULL);
		CHECK(0);
	} else if (!strcmp(kind, "execs another")) { /* which publishes nothing */
		say("ready");
		execl("/bin/cat", "cat", (char *)NULL);
		CHECK(0);
#ifdef SLUICE_API
	} else if (!strcmp(kind, "makers")) { /* queue pairs come and go */
		say("ready");
		for (int i = 0; i < 3; i++)
			t_makers();
		say("done");
		await_end();
#endif
	} else if (!strcmp(kind, "busy")) { /* until it is killed */
		struct ibv_wc wc;
		say("ready");
		for (uint64_t i = 0;; i++) {
			post_one(p, i, LENGTH);
			await(p->cq[0], &wc, 1);
		}
	} else {
		say("ready");
		await_end();
	}
	teardown(p);
	return 0;
}
