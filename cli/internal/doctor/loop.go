package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

const testBytes = 1 << 20

// loop is two queue pairs of the device, connected, and three regions.
type loop struct {
	dev  verbs.Device
	cq   verbs.CQ
	qp   [2]verbs.QP
	buf  [3][]byte
	mr   [3]verbs.MR
	free []func() error
}

// newLoop makes a loop. The caller closes it, also after an error.
func (e *examination) newLoop(change func(*verbs.RCParams)) (*loop, error) {
	l := &loop{dev: e.dev}
	pd, err := e.dev.AllocPD()
	if err != nil {
		return l, err
	}
	l.free = append(l.free, pd.Close)
	if l.cq, err = e.dev.CreateCQ(verbs.CQInitAttr{CQE: 64}); err != nil {
		return l, err
	}
	l.free = append(l.free, l.cq.Close)
	for i := range l.buf {
		l.buf[i] = make([]byte, testBytes)
		if l.mr[i], err = pd.RegMR(l.buf[i], ib.AccessLocalWrite|ib.AccessRemoteWrite|ib.AccessRemoteRead); err != nil {
			return l, err
		}
		l.free = append(l.free, l.mr[i].Close)
	}
	var end [2]verbs.Endpoint
	port, err := e.dev.Port(e.options.Port)
	if err != nil {
		return l, err
	}
	for i := range l.qp {
		if l.qp[i], err = pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: l.cq, RecvCQ: l.cq, Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}); err != nil {
			return l, err
		}
		l.free = append(l.free, l.qp[i].Close)
		addr, err := e.dev.GID(e.options.Port, e.gid)
		if err != nil {
			return l, err
		}
		end[i] = verbs.Endpoint{GID: addr, LID: port.LID, QPN: l.qp[i].Num(), PSN: uint32(100 + i)}
	}
	p := verbs.DefaultRC()
	p.Port, p.SGIDIndex = e.options.Port, e.gid
	if change != nil {
		change(&p)
	}
	for i := range l.qp {
		if err := verbs.ConnectRC(l.qp[i], end[i], end[1-i], p); err != nil {
			return l, err
		}
	}
	return l, nil
}

func (l *loop) close() error {
	var errs []error
	for i := len(l.free) - 1; i >= 0; i-- {
		errs = append(errs, l.free[i]())
	}
	return errors.Join(errs...)
}

// do carries out n operations between a whole region and the second one.
func (l *loop) do(op ib.WROpcode, local int, rkey uint32, n int) error {
	for range n {
		if _, err := l.qp[0].PostSend([]verbs.SendWR{{
			Opcode: op, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(l.mr[local], 0, testBytes)},
			RemoteAddr: l.mr[1].Addr(), RKey: rkey,
		}}); err != nil {
			return err
		}
	}
	_, err := verbs.Drain(l.dev, l.cq, make([]verbs.WC, n), 5*time.Second)
	return err
}

// copyBack writes to a second region and reads from there to a third, and tries a
// key that nobody has.
func (e *examination) copyBack() (err error) {
	l, err := e.newLoop(nil)
	defer func() { err = errors.Join(err, l.close()) }()
	if err != nil {
		return err
	}
	for i := range l.buf[0] {
		l.buf[0][i] = byte(i*7 + i>>8)
	}
	if err := l.do(ib.WRRDMAWrite, 0, l.mr[1].RKey(), 1); err != nil {
		return err
	}
	if err := l.do(ib.WRRDMARead, 2, l.mr[1].RKey(), 1); err != nil {
		return err
	}
	if !bytes.Equal(l.buf[0], l.buf[2]) {
		return errors.New("what was read back is not what was written")
	}
	wrong := l.mr[1].RKey()
	for wrong == l.mr[0].RKey() || wrong == l.mr[1].RKey() || wrong == l.mr[2].RKey() {
		wrong += 0x01000100
	}
	if err := l.do(ib.WRRDMAWrite, 0, wrong, 1); err == nil {
		return fmt.Errorf("a write with the key %#x, which no region has, succeeded", wrong)
	}
	return nil
}
