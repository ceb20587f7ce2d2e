package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/sluice-rdma/sluice/verbs"
)

// Options say how to examine.
type Options struct {
	Port int // whose settings count, from 1
	GID  int // index of the address to test with; -1 chooses
	// Engine paces part of the self-test; empty takes timely.
	Engine string
	// Duration is the length of each timed part of the self-test, of the device's
	// time; 0 takes half a second, and leaves it out on no device.
	Duration time.Duration
	// NoTest leaves the self-test out.
	NoTest bool
	// Root is the file system that /sys and /proc are read from; nil is the host's.
	Root fs.FS
	// Progress, if set, is called with the share that is done, 0 to 1, and what comes next.
	Progress func(done float64, what string)
}

// examination is one call of Examine.
type examination struct {
	dev     verbs.Device
	options Options
	root    fs.FS
	report  *Report

	gid  int     // the address that the self-test uses
	gbps float64 // what it reached unpaced
}

// Examine examines the device that open opens. It opens
// and closes it several times, one after the other, and nobody else may use it
// meanwhile. What does not work is in the report; an error is returned if the
// examination itself can't go on.
func Examine(open func() (verbs.Device, error), o Options) (*Report, error) {
	if o.Engine == "" {
		o.Engine = "timely"
	}
	if o.Duration <= 0 {
		o.Duration = time.Second / 2
	}
	if o.Progress == nil {
		o.Progress = func(float64, string) {}
	}
	dev, err := open()
	if err != nil {
		return nil, err
	}
	if ports := dev.Attr().PhysPorts; o.Port < 1 || o.Port > ports {
		return nil, errors.Join(fmt.Errorf("doctor: port %d: %s has ports 1 to %d", o.Port, dev.Name(), ports), dev.Close())
	}
	e := &examination{dev: dev, options: o, root: o.Root, report: &Report{Device: dev.Name()}}
	if e.root == nil {
		e.root = os.DirFS("/")
	}
	_, simulated := dev.(verbs.Runner)
	e.device()
	e.abilities()
	o.Progress(0.1, "the clock")
	err = verbs.Run(dev, e.clock)
	if !simulated {
		e.host()
		e.network()
		e.firmware()
	}
	if !o.NoTest && err == nil {
		e.test()
	}
	if err := errors.Join(err, dev.Close()); err != nil {
		return nil, err
	}
	if e.gbps > 0 {
		err = e.shims(open)
	}
	return e.report, err
}

// shims tests pacing on the device opened anew, since a shim closes what it wraps.
func (e *examination) shims(open func() (verbs.Device, error)) error {
	s := &e.report.Sections[len(e.report.Sections)-1]
	for _, part := range []struct {
		what string
		test func(*Section, verbs.Device) error
	}{{"pacing", e.paced}, {"steering", e.steered}} {
		dev, err := open()
		if err != nil {
			return err
		}
		if err := part.test(s, dev); err != nil {
			s.add(Fail, part.what, "%v", err)
		}
	}
	return nil
}
