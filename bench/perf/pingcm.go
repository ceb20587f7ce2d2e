package perf

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/rdmacm"
)

// partingTime is how long an end waits for the other's answer to its leaving.
const partingTime = 2 * time.Second

// cmParams returns what rping asks of rdma_cm: one Read at a time, all retries.
func (p *Pinger) cmParams() (rdmacm.Params, error) {
	params := rdmacm.DefaultParams()
	params.ResponderResources, params.InitiatorDepth = 1, 1
	if p.cfg.GID >= 0 {
		gid, err := p.dev.GID(p.cfg.Port, p.cfg.GID)
		if err != nil {
			return params, err
		}
		params.LocalAddr = gid
	}
	err := rdmacm.Init(p.qp, params)
	if err == nil {
		err = p.Ready()
	}
	return params, err
}

// play plays over a connection, and parts.
func (p *Pinger) play(c *rdmacm.Conn, game func() error) error {
	asked := p.cfg.Stop
	p.cfg.Stop = func() bool { return c.Err() != nil || asked != nil && asked() }
	err := game()
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	_ = c.Close(ctx) // an end that does not answer is gone as well
	return err
}

// PingDial connects by rdma_cm's protocol, as rping does, and plays the client.
func PingDial(ctx context.Context, dev verbs.Device, addr netip.AddrPort, cfg PingConfig) (*PingResult, error) {
	p, err := NewPinger(dev, cfg)
	if err != nil {
		return nil, err
	}
	var result *PingResult
	params, err := p.cmParams()
	if err == nil {
		var c *rdmacm.Conn
		if c, err = rdmacm.Dial(ctx, dev, addr, p.qp, params); err == nil {
			err = p.play(c, func() (err error) {
				result, err = p.Client()
				return err
			})
		}
	}
	return result, errors.Join(err, p.Close())
}

// PingAccept waits for a client that connects by rdma_cm's protocol, as rping
// does, and plays the server until the client leaves.
func PingAccept(ctx context.Context, l *rdmacm.Listener, dev verbs.Device, cfg PingConfig) error {
	r, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	p, err := NewPinger(dev, cfg)
	if err != nil {
		return errors.Join(err, r.Reject(nil))
	}
	params, err := p.cmParams()
	if err != nil {
		return errors.Join(err, r.Reject(nil), p.Close())
	}
	c, err := r.Accept(ctx, p.qp, params)
	if err == nil {
		err = p.play(c, p.Serve)
	}
	return errors.Join(err, p.Close())
}
