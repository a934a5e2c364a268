module deputize.test/plain_verifier

go 1.25.0

require github.com/cloudflare/circl v1.6.5

require golang.org/x/sys v0.47.0 // indirect
