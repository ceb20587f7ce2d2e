/* Protection domains and memory, and the tables of keys and queue pairs. */
#define _GNU_SOURCE
#include "fake.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

pthread_rwlock_t world = PTHREAD_RWLOCK_INITIALIZER;
struct fv_qp *qps[MAX_QPS];
struct fv_mr *mrs[MAX_MRS];
static uint32_t next_mr = 1;

/* Keys and queue pair numbers of two processes differ, so that neither takes
 * the other's for its own. */
uint32_t process_tag(void)
{
	static uint32_t tag;
	if (!tag)
		tag = ((uint32_t)getpid() * 2654435761u >> 20 & 0xffe) | 1;
	return tag;
}

struct fv_qp *qp_of_number(uint32_t number)
{
	struct fv_qp *q = qps[number & (MAX_QPS - 1)];
	return q && q->ex.qp_base.qp_num == number ? q : NULL;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	int err = hook(to_ctx(ctx), CALL_alloc_pd, NULL, NULL);
	if (err)
		return errno = err, NULL;
	struct ibv_pd *pd = calloc(1, sizeof *pd + sizeof(atomic_int));
	pd->context = ctx;
	atomic_fetch_add(&to_ctx(ctx)->objects, 1);
	return pd;
}

static atomic_int *users(struct ibv_pd *pd)
{
	return (atomic_int *)(pd + 1);
}

void pd_use(struct ibv_pd *pd, int n)
{
	atomic_fetch_add(users(pd), n);
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	struct fv_context *c = to_ctx(pd->context);
	int err = hook(c, CALL_dealloc_pd, NULL, NULL);
	if (err)
		return err;
	if (atomic_load(users(pd)))
		return EBUSY;
	atomic_fetch_sub(&c->objects, 1);
	free(pd);
	return 0;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	struct fv_context *c = to_ctx(pd->context);
	int err = hook(c, CALL_reg_mr, NULL, NULL);
	bool odp = access & IBV_ACCESS_ON_DEMAND;
	if (!err && odp && !c->cfg.odp)
		err = EOPNOTSUPP;
	if (!err && (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		err = EINVAL;
	if (!err && !length)
		err = EINVAL;
	if (err)
		return errno = err, NULL;
	struct fv_mr *m = calloc(1, sizeof *m);
	m->mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length};
	m->iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
	m->access = access;
	pthread_rwlock_wrlock(&world);
	uint32_t i = next_mr;
	for (uint32_t tried = 0; mrs[i]; tried++) {
		i = i + 1 < MAX_MRS ? i + 1 : 1;
		if (tried == MAX_MRS) {
			pthread_rwlock_unlock(&world);
			free(m);
			return errno = ENOMEM, NULL;
		}
	}
	next_mr = i + 1 < MAX_MRS ? i + 1 : 1;
	m->mr.handle = i;
	m->mr.lkey = m->mr.rkey = i << 8 | (process_tag() & 0xff);
	mrs[i] = m;
	pthread_rwlock_unlock(&world);
	pd_use(pd, 1);
	logf_(c, "reg_mr addr=%p length=%zu access=%#x key=%#x", addr, length, access, m->mr.lkey);
	return &m->mr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, access);
}

/* What mmap shows of a descriptor stands for the memory of another device. */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	void *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
	if (at == MAP_FAILED)
		return NULL;
	struct ibv_mr *mr = ibv_reg_mr_iova2(pd, at, length, iova, (unsigned int)access);
	if (mr)
		container(mr, struct fv_mr, mr)->mapped = true;
	else
		munmap(at, length);
	return mr;
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		 int access)
{
	struct fv_mr *m = container(mr, struct fv_mr, mr);
	if (hook(to_ctx(mr->context), CALL_rereg_mr, NULL, NULL))
		return IBV_REREG_MR_ERR_CMD;
	if (!flags || flags & ~IBV_REREG_MR_FLAGS_SUPPORTED)
		return errno = EINVAL, IBV_REREG_MR_ERR_INPUT;
	pthread_rwlock_wrlock(&world);
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		mr->addr = addr, mr->length = length, m->iova = (uintptr_t)addr;
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		pd_use(mr->pd, -1);
		pd_use(mr->pd = pd, 1);
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		m->access = access;
	pthread_rwlock_unlock(&world);
	return 0;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct fv_context *c = to_ctx(mr->context);
	int err = hook(c, CALL_dereg_mr, NULL, NULL);
	if (err)
		return err;
	pthread_rwlock_wrlock(&world);
	mrs[mr->handle] = NULL;
	pthread_rwlock_unlock(&world);
	pd_use(mr->pd, -1);
	if (container(mr, struct fv_mr, mr)->mapped)
		munmap(mr->addr, mr->length);
	free(container(mr, struct fv_mr, mr));
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct fv_context *c = to_ctx(pd->context);
	int err = hook(c, CALL_create_ah, NULL, NULL);
	if (!err && (!attr->is_global || attr->grh.sgid_index >= c->cfg.ngids))
		err = EINVAL; /* RoCE has no other addresses */
	if (err)
		return errno = err, NULL;
	struct fv_ah *ah = calloc(1, sizeof *ah);
	ah->ah = (struct ibv_ah){.context = pd->context, .pd = pd};
	ah->attr = *attr;
	pd_use(pd, 1);
	return &ah->ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	int err = hook(to_ctx(ah->context), CALL_destroy_ah, NULL, NULL);
	if (err)
		return err;
	pd_use(ah->pd, -1);
	free(ah);
	return 0;
}

int ibv_init_ah_from_wc(struct ibv_context *ctx, uint8_t port, struct ibv_wc *wc,
			struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	(void)ctx;
	memset(attr, 0, sizeof *attr);
	attr->port_num = port;
	attr->sl = wc->sl;
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;
	attr->is_global = 1;
	attr->grh.dgid = grh->sgid;
	attr->grh.hop_limit = 0xff;
	return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				     uint8_t port)
{
	struct ibv_ah_attr attr;
	int err = ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr);
	return err ? NULL : ibv_create_ah(pd, &attr);
}
