package main

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/exchange"
	"github.com/sluice-rdma/sluice/verbs/route"
)

// hello is what the two ends tell each other, once, over TCP.
type hello struct {
	verbs.Endpoint
	MTU  ib.MTU // that the path carries
	Addr uint64 // of the table; the server's alone
	RKey uint32
}

// mostHello is more than all takes that an end is told, in bytes.
const mostHello = 4096

// server owns the table. Its processor takes no part in puts and gets.
type server struct {
	dev   verbs.Device
	pd    verbs.PD
	cq    verbs.CQ
	mr    verbs.MR
	gid   int
	table []byte

	mu      sync.Mutex
	clients sync.WaitGroup
}

func newServer(device string, gid int) (*server, error) {
	s := &server{gid: gid, table: make([]byte, slots*slotBytes)}
	var err error
	if s.dev, err = verbs.Open(device); err != nil {
		return nil, err
	}
	if s.pd, err = s.dev.AllocPD(); err != nil {
		return nil, err
	}
	if s.cq, err = s.dev.CreateCQ(verbs.CQInitAttr{CQE: 16}); err != nil {
		return nil, err
	}
	s.mr, err = s.pd.RegMR(s.table, ib.AccessLocalWrite|ib.AccessRemoteWrite|ib.AccessRemoteRead|ib.AccessRemoteAtomic)
	return s, err
}

// serve connects clients until the listener is closed.
func (s *server) serve(l net.Listener) error {
	defer s.clients.Wait()
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		s.clients.Go(func() {
			// A client that fails to connect knows why; the others go on.
			_ = s.client(conn)
			_ = conn.Close()
		})
	}
}

// client gives a client a queue pair for as long as it keeps its TCP connection.
func (s *server) client(conn net.Conn) (err error) {
	s.mu.Lock()
	qp, err := s.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: s.cq, RecvCQ: s.cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}})
	s.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		err = errors.Join(err, qp.Close())
	}()
	end, from, err := endpoint(s.dev, s.gid, qp, conn)
	if err != nil {
		return err
	}
	me := hello{end, from.MTU, s.mr.Addr(), s.mr.RKey()}
	if err := json.NewEncoder(conn).Encode(me); err != nil {
		return err
	}
	var peer hello
	if err := json.NewDecoder(io.LimitReader(conn, mostHello)).Decode(&peer); err != nil {
		return err
	}
	if err := connect(qp, me, peer, from); err != nil {
		return err
	}
	if err := json.NewEncoder(conn).Encode("ready"); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, conn) // until the client leaves
	return err
}

func (s *server) close() error {
	return errors.Join(s.mr.Close(), s.cq.Close(), s.pd.Close(), s.dev.Close())
}

// endpoint is this end of a queue pair that is to reach the other end of conn: from the GID
// at an index, or at -1 by the kernel's route.
func endpoint(dev verbs.Device, gid int, qp verbs.QP, conn net.Conn) (verbs.Endpoint, route.From, error) {
	to := route.Over(conn)
	to.Index = gid
	from, err := route.Choose(dev, 1, to)
	return verbs.Endpoint{GID: from.GID, QPN: qp.Num(), PSN: exchange.RandomPSN()}, from, err
}

// connect connects a queue pair. The path MTU is the least of both ends'.
func connect(qp verbs.QP, me, peer hello, from route.From) error {
	p := verbs.DefaultRC()
	p.SGIDIndex, p.PathMTU = from.Index, min(me.MTU, peer.MTU)
	return verbs.ConnectRC(qp, me.Endpoint, peer.Endpoint, p)
}
