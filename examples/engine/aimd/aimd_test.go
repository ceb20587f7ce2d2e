package aimd

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/enginetest"
)

func TestConforms(t *testing.T) {
	enginetest.Tags(t, Config{})
	enginetest.Conform(t, enginetest.Subject{
		New: func(env cc.Env) (cc.Engine, error) { return New(DefaultConfig(), env) },
	})
}
