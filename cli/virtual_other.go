//go:build !linux

package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
)

func hiddenCommands() []*cobra.Command { return nil }

func virtualModels() []string { return []string{"Linux only"} }

func runVirtual(context.Context, *virtualFlags, [][]string, []string) error {
	return errors.New("sluice virtual requires Linux")
}
