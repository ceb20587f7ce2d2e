package perf

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/exchange"
	"github.com/sluice-rdma/sluice/verbs/route"
)

// rping's limits and numbers (rdmacm-utils 44).
const (
	PingPort    = 7174
	maxPingSize = 65535

	pingSQ   = 16
	pingRQ   = 2
	pingInfo = 16 // bytes of a message: address, R_Key, size, big-endian
)

// PingConfig is how to play rping. Each setting's tags describe it and its flag.
type PingConfig struct {
	Path

	Count int `flag:"count,C" range:"[0,)" help:"pings of the client; 0 is without end, and 10 on the model"`
	// Size is the client's; the server takes any.
	Size     int  `flag:"size,S" default:"64" range:"[26,65535]" help:"bytes of a ping"`
	Validate bool `flag:"validate,V" help:"compare what comes back"`
	// With Reconnect a client that loses its connection repeats the ping over a new one, and a server
	// waits for its client to come again, whatever ended the connection.
	Reconnect time.Duration `flag:"reconnect" unit:"s" range:"[1ms,1000000s]" zero:"a lost connection ends it" help:"client: connect anew when the connection is lost, and end after a <TIME> without a ping; server: wait for the client that long"`
	// Again, if set, returns a new exchange with the other end, within a time. Reconnect over TCP needs
	// it.
	Again func(within time.Duration) (*exchange.Conn, error)
	// Data, if set, is where the text of each ping is written.
	Data io.Writer
	// Stop, if set, is called now and then and reports whether the other end is gone.
	// Over a TCP exchange it need not be set.
	Stop func() bool
	// Stall ends a game in which nothing happens for so long; 0 takes a minute.
	Stall time.Duration `range:"[0s,)"`
}

var pingSettings = field.Of[PingConfig]("rping")

// DefaultPingConfig returns rping's: 64 bytes, without end.
func DefaultPingConfig() PingConfig {
	var c PingConfig
	field.Fill(&c)
	return c
}

// pinger is one end of rping's exchange. The client advertises memory; the server
// reads it and confirms; the client advertises other memory; the server writes
// there what it read and confirms. The messages are rping's, so either end may be
// the real rping once the two queue pairs are connected. The pinger does not
// connect them: Over does so by TCP, and a connection manager takes QP and calls
// Ready before it answers the other end.
type pinger struct {
	cfg     PingConfig
	dev     verbs.Device
	pd      verbs.PD
	channel verbs.CompChannel
	cq      verbs.CQ
	qp      verbs.QP
	mr      verbs.MR
	buf     []byte         // what is sent, what is received, the source, the sink
	got     [pingInfo]byte // the last message received
	score   *pingScore
}

// Where things are in the buffer.
const (
	pingSend   = 0
	pingRecv   = 64
	pingSource = 4096
	pingSink   = pingSource + 65536
	pingBuf    = pingSink + 65536
)

// errStopped is the error of a run that Stop ended.
var errStopped = errors.New("stopped")

// newPinger makes the queue pair and the memory of one end.
func newPinger(dev verbs.Device, cfg PingConfig) (*pinger, error) {
	if err := errors.Join(paths.Check(&cfg.Path), pingSettings.Check(&cfg)); err != nil {
		return nil, err
	}
	if cfg.Stall == 0 {
		cfg.Stall = time.Minute
	}
	p := &pinger{cfg: cfg, dev: dev, buf: make([]byte, pingBuf), score: newPingScore()}
	if err := p.make(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *pinger) make() (err error) {
	if p.pd, err = p.dev.AllocPD(); err != nil {
		return err
	}
	if p.mr, err = p.pd.RegMR(p.buf, ib.AccessLocalWrite|ib.AccessRemoteRead|ib.AccessRemoteWrite); err != nil {
		return err
	}
	if p.channel, err = p.dev.CreateCompChannel(); err != nil {
		return err
	}
	if p.cq, err = p.dev.CreateCQ(verbs.CQInitAttr{CQE: 2 * pingSQ, Channel: p.channel}); err != nil {
		return err
	}
	p.qp, err = p.pd.CreateQP(verbs.QPInitAttr{
		Type: ib.RC, SendCQ: p.cq, RecvCQ: p.cq,
		Cap: verbs.QPCap{MaxSendWR: pingSQ, MaxRecvWR: pingRQ, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	return err
}

// QP is the queue pair, in RESET.
func (p *pinger) QP() verbs.QP { return p.qp }

// Ready posts the first receive. The queue pair must have left RESET.
func (p *pinger) Ready() error {
	_, err := p.qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{verbs.SGEOf(p.mr, pingRecv, pingInfo)}}})
	return err
}

// Over connects over a TCP exchange.
func (p *pinger) Over(conn *exchange.Conn) error {
	from, err := route.Choose(p.dev, p.cfg.Port, toward(conn, p.cfg.GID, p.cfg.IPv6))
	if err != nil {
		return err
	}
	params := verbs.DefaultRC()
	params.Port, params.SGIDIndex, params.PathMTU = p.cfg.Port, from.Index, from.MTU
	if p.cfg.MTU != 0 {
		params.PathMTU = p.cfg.MTU
	}
	// rping asks for one read at a time.
	params.MaxRdAtomic, params.MaxDestRdAtomic = 1, 1
	psn := exchange.RandomPSN()
	if verbs.Simulated(p.dev) {
		psn = p.qp.Num() & 0xffffff // so that runs are alike
	}
	_, err = conn.ConnectRC(context.Background(), p.qp, exchange.Dest{QPN: p.qp.Num(), PSN: psn, GID: from.GID}, params, p.Ready)
	return err
}

// Close gives everything back.
func (p *pinger) Close() error {
	var errs []error
	if p.qp != nil {
		errs = append(errs, p.qp.Close())
	}
	if p.cq != nil {
		errs = append(errs, p.cq.Close())
	}
	if p.channel != nil {
		errs = append(errs, p.channel.Close())
	}
	if p.mr != nil {
		errs = append(errs, p.mr.Close())
	}
	if p.pd != nil {
		errs = append(errs, p.pd.Close())
	}
	return errors.Join(errs...)
}

// PingResult is what a client has seen.
type PingResult struct {
	Pings uint64      `json:"pings"`
	Bytes int         `json:"bytes"` // of a ping
	MinUs stats.Float `json:"t_min_us"`
	AvgUs stats.Float `json:"t_avg_us"`
	MaxUs stats.Float `json:"t_max_us"`
	// With Reconnect: how often the connection was made anew, the longest time from one ping's end to
	// the next one's, and what was repaired.
	Reconnects uint64   `json:"reconnects,omitempty"`
	Outage     *Outage  `json:"outage,omitempty"`
	Repairs    *Repairs `json:"repairs,omitempty"`
}

// Client plays the client, from the ping on that the score has next.
func (p *pinger) Client() error {
	source := p.buf[pingSource:][:p.cfg.Size]
	sink := p.buf[pingSink:][:p.cfg.Size]
	for s := p.score; p.cfg.Count == 0 || s.ping < p.cfg.Count; {
		ping := s.ping
		next := pingText(source, ping, s.letter)
		start := p.now()
		for _, at := range []int{pingSource, pingSink} {
			if err := p.advertise(at); err != nil {
				return err
			}
			if _, err := p.await(ib.WCRecv); err != nil {
				return err
			}
		}
		s.add(start, p.now(), next)
		if p.cfg.Validate && !bytes.Equal(source, sink) {
			at := 0
			for source[at] == sink[at] {
				at++
			}
			return fmt.Errorf("ping %d returned changed: byte %d: expected %#x, got %#x", ping, at, source[at], sink[at])
		}
		p.show("ping data", sink)
	}
	return nil
}

// pingText writes a ping: its number, and letters from a first on that differs
// from ping to ping. It returns the next one's.
func pingText(b []byte, ping int, letter byte) byte {
	n := copy(b, fmt.Sprintf("rdma-ping-%d: ", ping))
	c := letter
	for i := n; i < len(b); i++ {
		b[i] = c
		if c++; c > 'z' {
			c = 'A'
		}
	}
	b[len(b)-1] = 0
	if letter++; letter > 'z' {
		letter = 'A'
	}
	return letter
}

// Serve is the server until the other end has left.
func (p *pinger) Serve() error {
	for {
		source, err := p.offered()
		if err != nil {
			return over(err)
		}
		if err := p.carry(ib.WRRDMARead, source, int(source.size)); err != nil {
			return over(err)
		}
		data := p.buf[pingSink:][:source.size]
		p.show("server ping data", data)
		if err := p.goAhead(); err != nil {
			return over(err)
		}
		sink, err := p.offered()
		if err != nil {
			return over(err)
		}
		// As rping's, the pong is the text with the NUL at its end.
		n := bytes.IndexByte(data, 0) + 1
		if n == 0 {
			n = len(data)
		}
		if err := p.carry(ib.WRRDMAWrite, sink, min(n, int(sink.size))); err != nil {
			return over(err)
		}
		if err := p.goAhead(); err != nil {
			return over(err)
		}
	}
}

// over distinguishes a requested end, or one by the other end, from a failure.
func over(err error) error {
	if errors.Is(err, errStopped) || errors.Is(err, ib.WCWRFlushErr) {
		return nil
	}
	return err
}

// region is memory that the other end offers.
type region struct {
	addr uint64
	rkey uint32
	size uint32
}

// offered waits for the client's next offer.
func (p *pinger) offered() (region, error) {
	wc, err := p.await(ib.WCRecv)
	if err != nil {
		return region{}, err
	}
	b := p.got[:]
	r := region{binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])}
	if wc.ByteLen != pingInfo || r.size < 1 || r.size > maxPingSize {
		return r, fmt.Errorf("the client offers %d bytes in a message of %d: it must be 1 to %d in %d", r.size, wc.ByteLen, maxPingSize, pingInfo)
	}
	return r, nil
}

// carry reads from the client's memory, or writes to it.
func (p *pinger) carry(op ib.WROpcode, r region, n int) error {
	_, err := p.qp.PostSend([]verbs.SendWR{{
		Opcode: op, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(p.mr, pingSink, n)}, RemoteAddr: r.addr, RKey: r.rkey,
	}})
	if err == nil {
		_, err = p.await(op.Completion())
	}
	return err
}

// goAhead signals the client to continue. Its length matters, its content does not.
func (p *pinger) goAhead() error { return p.send() }

// advertise offers the client's memory.
func (p *pinger) advertise(at int) error {
	b := p.buf[pingSend:]
	binary.BigEndian.PutUint64(b, p.mr.Addr()+uint64(at))
	binary.BigEndian.PutUint32(b[8:], p.mr.RKey())
	binary.BigEndian.PutUint32(b[12:], uint32(p.cfg.Size))
	return p.send()
}

func (p *pinger) send() error {
	_, err := p.qp.PostSend([]verbs.SendWR{{Opcode: ib.WRSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(p.mr, pingSend, pingInfo)}}})
	return err
}

// await waits for a completion of a kind, and posts the next receive if it was one.
// Completions of sends are skipped: the other end's answer implies them.
func (p *pinger) await(op ib.WCOpcode) (verbs.WC, error) {
	const slice = 100 * time.Millisecond // between questions to Stop
	for idle := time.Duration(0); ; {
		if err := p.cq.ReqNotify(false); err != nil {
			return verbs.WC{}, err
		}
		// Asked before the poll: what arrived before the other end went is there by then.
		stop := p.cfg.Stop != nil && p.cfg.Stop()
		var wc [1]verbs.WC
		for {
			n, err := p.cq.Poll(wc[:])
			if err != nil {
				return wc[0], err
			}
			if n == 0 {
				break
			}
			idle = 0
			switch {
			case wc[0].Status != ib.WCSuccess:
				return wc[0], verbs.Errorf("poll_cq", fmt.Sprintf("qp %#x of %s", p.qp.Num(), p.dev.Name()), &verbs.StatusError{WC: wc[0]}, "")
			case wc[0].Opcode == ib.WCRecv && op == ib.WCRecv:
				copy(p.got[:], p.buf[pingRecv:])
				return wc[0], p.Ready()
			case wc[0].Opcode == op:
				return wc[0], nil
			case wc[0].Opcode != ib.WCSend:
				return wc[0], fmt.Errorf("the other end does not speak rping: expected a %v, got a %v", op, wc[0].Opcode)
			}
		}
		if stop {
			return wc[0], errStopped
		}
		_, err := p.channel.Wait(context.Background(), slice)
		if err == nil {
			continue
		}
		if !errors.Is(err, verbs.ErrTimeout) {
			return wc[0], err
		}
		if idle += slice; idle >= p.cfg.Stall {
			return wc[0], verbs.Errorf("poll_cq", p.dev.Name(), verbs.ErrTimeout, "nothing has happened for %v; is the other end still there?", p.cfg.Stall)
		}
	}
}

func (p *pinger) show(what string, text []byte) {
	if p.cfg.Data == nil {
		return
	}
	text, _, _ = bytes.Cut(text, []byte{0})
	fmt.Fprintf(p.cfg.Data, "%s: %s\n", what, text)
}

// now reads the device's clock.
func (p *pinger) now() units.Time { return clock(p.dev) }

// clock reads a device's clock.
func clock(dev verbs.Device) units.Time {
	if c, ok := dev.(verbs.PreciseClock); ok {
		return c.NowPrecise()
	}
	return units.FromDuration(dev.Now())
}

// PingClient connects over a TCP exchange and plays the client. It closes conn. It returns what it
// has seen also if it fails.
func PingClient(dev verbs.Device, conn *exchange.Conn, cfg PingConfig) (*PingResult, error) {
	return newPingScore().client(dev, cfg, func(within time.Duration, play func(*pinger) error) (err error) {
		if conn == nil {
			if conn, err = cfg.Again(within); err != nil {
				return err
			}
		}
		c := conn
		conn = nil
		return ping(dev, c, cfg, play)
	})
}

// PingServe connects over a TCP exchange and plays the server until the client
// closes it. It closes conn.
func PingServe(dev verbs.Device, conn *exchange.Conn, cfg PingConfig) error {
	for {
		served := false
		err := ping(dev, conn, cfg, func(p *pinger) error {
			served = true
			return p.Serve()
		})
		if cfg.Reconnect == 0 || served && err != nil && !lostPing(err) {
			return err
		}
		next, none := cfg.Again(cfg.Reconnect)
		if none != nil { // the client was done, or err says why it could not go on
			return err
		}
		conn = next
	}
}

func ping(dev verbs.Device, conn *exchange.Conn, cfg PingConfig, play func(*pinger) error) error {
	return whileThere(dev, conn, func() error {
		p, err := newPinger(dev, cfg)
		if err == nil {
			if err = p.Over(conn); err == nil {
				if p.cfg.Stop == nil {
					p.cfg.Stop = conn.Watch()
				}
				err = play(p)
			}
		}
		// The other end learns that this one is done before its queue pair goes.
		_ = conn.Close()
		if p != nil {
			err = errors.Join(err, p.Close())
		}
		return err
	})
}

// PingPair plays both ends in this process and returns what the client has seen.
// The text of the pings is written as the client sees it.
func PingPair(client, server verbs.Device, cfg PingConfig) (*PingResult, error) {
	a, b, err := connection(client, server)
	if err != nil {
		return nil, err
	}
	served := cfg
	served.Data = nil
	var meeting meeting
	cfg.Again = func(time.Duration) (*exchange.Conn, error) { return meeting.arrive(client, server) }
	served.Again = func(within time.Duration) (*exchange.Conn, error) { return meeting.wait(server, within) }
	var result *PingResult
	err = bothEnds(client,
		func() (err error) {
			defer meeting.leave()
			result, err = PingClient(client, exchange.New(a, true, 0), cfg)
			return err
		},
		func() error { return PingServe(server, exchange.New(b, false, 0), served) },
	)
	return result, err
}
