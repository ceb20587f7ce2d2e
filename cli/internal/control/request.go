package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// Failure is how a device's port and the link at it fail, by the keys of a scenario's
// fabric.failures. The zero value is a port that is whole again.
type Failure struct {
	Down   bool       `json:"down,omitempty" flag:"down" help:"the port is down, and nothing passes"`
	Silent bool       `json:"silent,omitempty" flag:"silent" help:"nothing passes, and the port stays up"`
	OneWay bool       `json:"one_way,omitempty" flag:"one-way" help:"with --silent: what the port receives passes"`
	Rate   units.Rate `json:"rate,omitempty" flag:"rate" range:"(0,)" zero:"as it was" help:"<RATE> of what the port sends"`
	Delay  units.Time `json:"delay,omitempty" flag:"delay" range:"(0,10s]" zero:"none" help:"<TIME> by which what the port sends is later"`
	Loss   float64    `json:"loss,omitempty" flag:"loss" range:"[0,1]" unit:"%" as:"a probability" zero:"none" help:"<SHARE> of what the port sends that is lost: 1%, or 0.01"`

	For   units.Time `json:"for,omitempty" flag:"for" range:"(0,)" zero:"until it is made whole" help:"<TIME> that it lasts"`
	Every units.Time `json:"every,omitempty" flag:"every" range:"(0,)" zero:"once" help:"<TIME> from one beginning to the next, of one that comes again; needs --for"`
	Times int        `json:"times,omitempty" flag:"times" range:"[1,1000000]" zero:"until it is made whole" help:"how <OFTEN> it comes; needs --every"`
}

var ofFailure = field.Of[Failure]("flags")

// Validate reports the first setting that can't be, or does not go with another.
func (f *Failure) Validate() error {
	if err := ofFailure.Check(f); err != nil {
		return err
	}
	fails := f.Down || f.Silent || f.Rate > 0 || f.Delay > 0 || f.Loss > 0
	switch {
	case f.OneWay && !f.Silent:
		return errors.New("--one-way says how --silent is meant: give both")
	case !fails && f.For > 0:
		return errors.New("--for says how long it fails, and nothing says how: add --down, --silent, --rate, --delay or --loss")
	case f.Every > 0 && f.For == 0:
		return errors.New("--every needs --for, how long it lasts each time")
	case f.Every > 0 && f.Every <= f.For:
		return fmt.Errorf("--every %v is not longer than --for %v: it would be whole in between for no time", f.Every, f.For)
	case f.Times > 0 && f.Every == 0:
		return errors.New("--times needs --every, the time from one beginning to the next")
	}
	return nil
}

func (f *Failure) link() verbs.LinkFailure {
	return verbs.LinkFailure{Silent: f.Silent, OneWay: f.OneWay, Rate: f.Rate, Delay: f.Delay, Loss: f.Loss}
}

// Request asks for one failure.
type Request struct {
	Device string   `json:"device"`
	Port   *Failure `json:"port,omitempty"` // of its port 1
	QP     uint32   `json:"qp,omitempty"`   // the number of a queue pair that goes to ERR
	Dies   bool     `json:"dies,omitempty"`

	// Completion is how a request of the queue pair completes, in place of its going to ERR at once.
	Completion *Completion `json:"completion,omitempty"`
}

// Completion is a request that completes with an error, by the keys of a scenario's fabric.failures.
type Completion struct {
	Status    scenario.Status   `json:"status"`
	VendorErr scenario.Syndrome `json:"vendor_err,omitempty"`
	After     uint64            `json:"after,omitempty"`
}

type answer struct {
	Error string `json:"error,omitempty"`
}

// longest bounds a request's and an answer's bytes, and patience how long either end waits.
const (
	longest  = 4096
	patience = 10 * time.Second
)

// Ask sends a request to the process that listens at path, and returns its refusal. The failure has begun when it returns.
func Ask(ctx context.Context, path string, r *Request) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("%w: is there a sluice virtual --control %s?", err, path)
	}
	defer func() { _ = c.Close() }() // all was read
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if err := json.NewEncoder(c).Encode(r); err != nil {
		return err
	}
	var a answer
	if err := read(c, &a); err != nil {
		return fmt.Errorf("%s: the answer: %w", path, err)
	}
	if a.Error != "" {
		return errors.New(a.Error)
	}
	return nil
}

// read reads one document of no more than longest bytes.
func read(from io.Reader, to any) error {
	d := json.NewDecoder(io.LimitReader(from, longest))
	d.DisallowUnknownFields()
	err := d.Decode(to)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("it ends early, or has more than %d bytes", longest)
	}
	return err
}
