package paced

import "github.com/sluice-rdma/sluice/cc"

// Watch has f called as Config.Observe is, for q alone, in place of what was watching
// before; nil for nobody. f runs with the lock held of q's send CQ: it must not
// call the Shim, nor keep a. When Watch returns, the function that it replaced runs no more.
func (q *QP) Watch(f func(a *cc.Ack, c cc.Control)) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	q.watch = f
}
