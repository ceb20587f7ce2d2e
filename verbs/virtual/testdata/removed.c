/*
 * A program whose device goes while it uses it: what each call says. It prints "ready", and
 * goes on when it reads a line. Its argument is what the completion queue gives: "flush"
 * where the device flushes what was posted, or "nothing" where nobody is left who could.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failures;

static void expect(const char *what, int ok)
{
	if (!ok) {
		printf("%s: errno %d\n", what, errno);
		failures++;
	}
}

static void need(const char *what, int ok)
{
	if (!ok) {
		perror(what);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	int flush = argc > 1 && !strcmp(argv[1], "flush"), n = 0, fatal = 0;
	struct ibv_device **list = ibv_get_device_list(&n);
	struct ibv_context *c;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq, *of;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	static char buf[4096];
	struct ibv_sge sge = {.addr = (uintptr_t)buf, .length = sizeof buf};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_async_event event;
	struct ibv_wc wc;
	void *context;

	need("devices", list && n == 1);
	need("open", (c = ibv_open_device(list[0])) != NULL);
	need("pd", (pd = ibv_alloc_pd(c)) != NULL);
	need("channel", (channel = ibv_create_comp_channel(c)) != NULL);
	need("cq", (cq = ibv_create_cq(c, 16, NULL, channel, 0)) != NULL);
	need("mr", (mr = ibv_reg_mr(pd, buf, sizeof buf, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	sge.lkey = mr->lkey;
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
	need("qp", (qp = ibv_create_qp(pd, &init)) != NULL);
	need("init", !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	need("recv", !ibv_post_recv(qp, &wr, &bad));
	need("arm", !ibv_req_notify_cq(cq, 0));
	printf("ready\n");
	fflush(stdout);
	need("go", getchar() != EOF);

	/* The events before the last are the port's. */
	while (!fatal) {
		errno = 0;
		if (ibv_get_async_event(c, &event)) {
			expect("no event", 0);
			break;
		}
		fatal = event.event_type == IBV_EVENT_DEVICE_FATAL;
		ibv_ack_async_event(&event);
	}
	errno = 0;
	if (flush) {
		expect("an event of completions", !ibv_get_cq_event(channel, &of, &context) && of == cq);
		ibv_ack_cq_events(cq, 1);
		while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
			;
		expect("a receive that is flushed", n == 1 && wc.status == IBV_WC_WR_FLUSH_ERR);
	} else {
		expect("no more events", ibv_get_async_event(c, &event) == -1 && errno == EIO);
		errno = 0;
		expect("no events of completions", ibv_get_cq_event(channel, &of, &context) == -1 && errno == EIO);
	}
	errno = 0;
	expect("another PD", ibv_alloc_pd(c) == NULL && errno == EIO);
	errno = 0;
	expect("another region", ibv_reg_mr(pd, buf, sizeof buf, 0) == NULL && errno == EIO);
	errno = 0;
	expect("another CQ", ibv_create_cq(c, 4, NULL, NULL, 0) == NULL && errno == EIO);
	attr.qp_state = IBV_QPS_RTR;
	n = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	expect("a change of state", n != 0);
	/* libibverbs passes EIO on, unless RDMAV_ALLOW_DISASSOC_DESTROY asks it for more. */
	int gone = flush ? 0 : EIO;
	expect("destroy the QP", ibv_destroy_qp(qp) == gone);
	if (flush) {
		expect("destroy the CQ", !ibv_destroy_cq(cq));
		expect("destroy the channel", !ibv_destroy_comp_channel(channel));
		expect("deregister", !ibv_dereg_mr(mr));
		expect("the PD", !ibv_dealloc_pd(pd));
	}
	expect("close", !ibv_close_device(c));
	printf("%d failures\n", failures);
	return !!failures;
}
