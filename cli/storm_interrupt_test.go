package cli

import (
	"bytes"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/storm"
)

// A storm ends at a signal though a run hangs, be it one of a seed or one that shrinks a failure,
// and says what it knows.
func TestStormInterrupted(t *testing.T) {
	for _, c := range []struct {
		name   string
		fails  int // runs that fail before one hangs
		status string
		want   []string
	}{
		{"a seed", 0, "interrupted", []string{"soft: 0 seeds from 7 on", "seed 7 was under way"}},
		{"shrinking", 1, "seed 7 fails over soft: at 0s: process 0: no luck", []string{
			"seed 7 fails: at 0s: process 0: no luck", "and fewer may be: shrinking them was interrupted",
		}},
		{"later", 3, "seed 7 fails over soft: at 0s: process 0: no luck", []string{"and fewer may be: shrinking them was interrupted"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			stop := make(chan struct{})
			defer close(stop)
			var runs atomic.Int32
			o := stormOptions{config: storm.Default(), seeds: 10, workers: 1, tries: 1000, span: units.Millisecond, patience: time.Hour}
			o.config.Seed = 7
			o.config.Program = func(p *storm.Process) error {
				if p.ID > 0 {
					return nil
				}
				if int(runs.Add(1)) > c.fails {
					if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
						t.Error(err)
					}
					<-stop
				}
				p.Failf("no luck")
				return nil
			}
			cmd := newStorm(nil)
			var out bytes.Buffer
			cmd.SetOut(&out)
			cmd.SetContext(t.Context())
			err := o.run(cmd, nil)
			if err == nil || err.Error() != c.status {
				t.Errorf("%v, expected %s", err, c.status)
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is missing in\n%.2000s", want, &out)
				}
			}
		})
	}
}
