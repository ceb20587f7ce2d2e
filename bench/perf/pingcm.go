package perf

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/rdmacm"
)

// partingTime is how long an end waits for the other's answer to its leaving.
const partingTime = 2 * time.Second

// cmParams returns what rping asks of rdma_cm: one Read at a time, all retries.
func (p *pinger) cmParams() (rdmacm.Params, error) {
	params := rdmacm.DefaultParams()
	params.ResponderResources, params.InitiatorDepth, params.PathMTU = 1, 1, p.cfg.MTU
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
func (p *pinger) play(c *rdmacm.Conn, game func() error) error {
	asked := p.cfg.Stop
	p.cfg.Stop = func() bool { return c.Err() != nil || asked != nil && asked() }
	err := game()
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	_ = c.Close(ctx) // an end that does not answer has left as well
	return err
}

// PingDial connects by rdma_cm's protocol, as rping does, and plays the client.
func PingDial(ctx context.Context, dev verbs.Device, addr netip.AddrPort, cfg PingConfig) (*PingResult, error) {
	return newPingScore().client(dev, cfg, func(within time.Duration, play func(*pinger) error) error {
		p, err := newPinger(dev, cfg)
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(ctx)
		if within > 0 {
			ctx, stop = context.WithTimeout(ctx, within)
		}
		defer stop()
		params, err := p.cmParams()
		if err == nil {
			var c *rdmacm.Conn
			if c, err = rdmacm.Dial(ctx, dev, addr, p.qp, params); err == nil {
				err = p.play(c, func() error { return play(p) })
			}
		}
		return errors.Join(err, p.Close())
	})
}

// PingListen is the server for clients that connect by rdma_cm's protocol, as rping
// does. It serves the first that connects until that leaves or, if all is set, every
// client at the same time until ctx is done or the listener is closed. Anybody can
// request a connection in any name and never complete it: that does not delay others.
// failed is called, from one goroutine at a time, for failed requests and exchanges
// that the result does not cover; nil ignores them.
func PingListen(ctx context.Context, l *rdmacm.Listener, dev verbs.Device, cfg PingConfig, all bool, failed func(error)) error {
	accepting, stop := context.WithCancel(ctx)
	defer stop()
	var clients sync.WaitGroup
	var mu sync.Mutex // guards what follows
	met := false
	var result error
	playing := 0
	var gone *time.Timer // with Reconnect: the client has left, and may come again until then
	defer func() {
		if gone != nil {
			gone.Stop()
		}
	}()
	for {
		r, err := l.Accept(accepting)
		if err != nil {
			clients.Wait()
			if accepting.Err() != nil && ctx.Err() == nil { // by the first client
				err = nil
			}
			return errors.Join(result, err)
		}
		clients.Go(func() {
			mine := false
			err := pingRequest(ctx, r, dev, cfg, func() bool {
				mu.Lock()
				defer mu.Unlock()
				again := cfg.Reconnect > 0
				if mine = all || !met || again; mine && !all && !again {
					stop()
				}
				met = true
				if mine {
					playing++
				}
				if gone != nil {
					gone.Stop()
				}
				return mine
			})
			mu.Lock()
			defer mu.Unlock()
			if mine {
				playing--
			}
			if met && playing == 0 && cfg.Reconnect > 0 && !all {
				gone = time.AfterFunc(cfg.Reconnect, stop)
			}
			switch {
			case mine && !all:
				result = err
			case err != nil && failed != nil:
				failed(err)
			}
		})
	}
}

// pingRequest answers a request, and plays the server if wanted says so once the client
// is there.
func pingRequest(ctx context.Context, r *rdmacm.Request, dev verbs.Device, cfg PingConfig, wanted func() bool) error {
	p, err := newPinger(dev, cfg)
	if err != nil {
		return errors.Join(err, r.Reject(nil))
	}
	params, err := p.cmParams()
	if err != nil {
		return errors.Join(err, r.Reject(nil), p.Close())
	}
	c, err := r.Accept(ctx, p.qp, params)
	if err == nil {
		game := p.Serve
		if !wanted() {
			game = func() error { return nil }
		}
		err = p.play(c, game)
	}
	return errors.Join(err, p.Close())
}
