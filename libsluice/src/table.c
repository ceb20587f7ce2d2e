#include "shim.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Reading takes no lock: a node is never freed and keeps its key, only its value
 * comes and goes. Drivers take objects from malloc, so addresses come again and
 * nodes with them. */
struct node {
	struct node *next;
	const void *key;
	enum sl_kind kind;
	_Atomic(struct ibv_context *) context; /* of the object, which may be gone */
	_Atomic(void *) value;
};

enum { BITS = 12 };
static _Atomic(struct node *) buckets[1 << BITS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static inline _Atomic(struct node *) *bucket(enum sl_kind kind, const void *key)
{
	uint64_t h = ((uint64_t)(uintptr_t)key >> 4 ^ kind) * 0x9e3779b97f4a7c15u;
	return &buckets[h >> (64 - BITS)];
}

static inline struct node *find(enum sl_kind kind, const void *key)
{
	struct node *n = atomic_load_explicit(bucket(kind, key), memory_order_acquire);
	while (n && (n->key != key || n->kind != kind))
		n = n->next;
	return n;
}

void *sl_get(enum sl_kind kind, const void *key)
{
	struct node *n = find(kind, key);
	return n ? atomic_load_explicit(&n->value, memory_order_acquire) : NULL;
}

int sl_set(enum sl_kind kind, const void *key, void *value)
{
	int r = 0;
	pthread_mutex_lock(&lock);
	struct node *n = find(kind, key);
	if (n) {
		if (value)
			atomic_store(&n->context, *(struct ibv_context *const *)key);
		atomic_store_explicit(&n->value, value, memory_order_release);
	} else if (value) {
		n = malloc(sizeof(*n));
		if (n) {
			_Atomic(struct node *) *b = bucket(kind, key);
			n->key = key;
			n->kind = kind;
			atomic_init(&n->context, *(struct ibv_context *const *)key);
			atomic_init(&n->value, value);
			n->next = atomic_load_explicit(b, memory_order_relaxed);
			atomic_store_explicit(b, n, memory_order_release);
		} else {
			r = ENOMEM;
		}
	}
	pthread_mutex_unlock(&lock);
	return r;
}

void *sl_any(enum sl_kind kind, struct ibv_context *context)
{
	for (int i = 0; i < 1 << BITS; i++) {
		struct node *n = atomic_load_explicit(&buckets[i], memory_order_acquire);
		for (; n; n = n->next)
			if (n->kind == kind && atomic_load(&n->value) && atomic_load(&n->context) == context)
				return (void *)n->key;
	}
	return NULL;
}

void sl_table_before_fork(void) { pthread_mutex_lock(&lock); }

void sl_table_after_fork(bool child)
{
	if (child) {
		/* The parent's objects are libibverbs' in the child. But the calls of a queue pair
		 * have been written over, and find their way by this. */
		for (int i = 0; i < 1 << BITS; i++)
			for (struct node *n = atomic_load(&buckets[i]); n; n = n->next)
				if (n->kind != SL_BUILDER)
					atomic_store(&n->value, NULL);
		pthread_mutex_init(&lock, NULL);
	} else {
		pthread_mutex_unlock(&lock);
	}
}
