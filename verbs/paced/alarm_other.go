//go:build !linux

package paced

import (
	"sync/atomic"
	"time"

	"github.com/sluice-rdma/sluice/verbs"
)

type alarm struct{ rung atomic.Bool }

func newAlarm() (*alarm, error) { return nil, verbs.ErrNotSupported }

func (a *alarm) sharpen()                {}
func (a *alarm) ring()                   {}
func (a *alarm) wait(time.Duration) bool { return true }
func (a *alarm) close()                  {}
