// Reads a dashboard as Grafana's own library does, strictly: names that its schema does not have, values of other types
// and constraints that do not hold are faults, a line each. Exit status 0: there are none.
package main

import (
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	text, err := os.ReadFile(os.Args[1])
	end(err)
	plugins.RegisterDefaultPlugins()
	read := dashboard.Dashboard{}
	end(read.UnmarshalJSONStrict(text))
	end(read.Validate())
	fmt.Printf("%d panels\n", len(read.Panels))
}

func end(err error) {
	// The library answers an empty list of faults where there are none.
	if err == nil || err.Error() == "" {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
