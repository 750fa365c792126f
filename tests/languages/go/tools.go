//go:build tools

// Names the module whose own tests are compiled and run, so that the lock keeps it.
package tools

import _ "github.com/twmb/franz-go/pkg/kgo"
