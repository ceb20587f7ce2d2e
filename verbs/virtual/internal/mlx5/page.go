package mlx5

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// PageBytes is the size of a UAR page.
const PageBytes = 4096

// Doorbells of a page.
const (
	blueFlame  = 0x800 // the first of the registers' buffers
	bufferStep = 0x100 // from one buffer to the next: two for each of four registers
	sendBells  = 8
)

// Page is a UAR page that a program rings doorbells on.
type Page struct {
	e    *Engine
	mem  []byte
	cq   *atomic.Uint64
	send [sendBells]*atomic.Uint64
	qps  []*QP
}

// AddPage adds a UAR page: memory of PageBytes that begins at a multiple of 8 and that
// the program has mapped too. The Engine looks at the doorbells of CQs, at offset 0x20,
// and at those of the four blue-flame registers from 0x800 on, each with two buffers of
// 0x100 bytes. It sets a doorbell to 0 when it has seen it: a program never stores 0,
// which is the number of no queue.
func (e *Engine) AddPage(mem []byte) (*Page, error) {
	if len(mem) != PageBytes || uintptr(unsafe.Pointer(unsafe.SliceData(mem)))%8 != 0 {
		return nil, fmt.Errorf("mlx5: a UAR page of %d bytes at %p, expected %d at a multiple of 8", len(mem), mem, PageBytes)
	}
	p := &Page{e: e, mem: mem, cq: wordAt(mem, connectx.CQDoorbell)}
	for i := range p.send {
		p.send[i] = wordAt(mem, blueFlame+i*bufferStep)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pages = append(e.pages, p)
	return p, nil
}

func wordAt(mem []byte, offset int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&mem[offset]))
}

// Remove ends the use of the page's memory. It fails with verbs.ErrBusy while queue pairs
// use the page.
func (p *Page) Remove() error {
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	if len(p.qps) > 0 {
		return verbs.ErrBusy
	}
	p.e.pages = without(p.e.pages, p)
	return nil
}

// taken reports whether a doorbell was rung, and clears it.
func taken(w *atomic.Uint64) bool { return w.Load() != 0 && w.Swap(0) != 0 }

// doorbells looks at the pages, and reports whether a CQ's was rung. Queue pairs whose
// records are to be read are in todo then.
func (e *Engine) doorbells() (arms bool) {
	for _, p := range e.pages {
		if taken(p.cq) {
			arms = true
		}
		rung := false
		for _, w := range p.send {
			if taken(w) {
				rung = true
			}
		}
		if rung {
			for _, q := range p.qps {
				q.rings()
			}
		}
	}
	return arms
}
