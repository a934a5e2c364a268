// Command shop does the main job with the client that openapi-generator creates: go run . <base URL> <email>.
// It prints `code`, reads the mailed code from standard input, and prints what it saw as one line of JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"

	"example.com/shop/client"
)

const scope = "payments:send"

func main() {
	base, email := os.Args[1], os.Args[2]
	ctx := context.Background()
	jar := must(cookiejar.New(nil))
	person := newClient(base, &http.Client{Jar: jar})
	application := newClient(base, &http.Client{})

	ok(person.AuthAPI.SendCode(ctx).EmailAddress(*client.NewEmailAddress(email)).Execute())
	fmt.Println("code")
	scanner := bufio.NewScanner(os.Stdin)
	scanner.Scan()
	ok(person.AuthAPI.VerifyCode(ctx).VerifyCodeBody(*client.NewVerifyCodeBody(email, scanner.Text())).Execute())
	signedIn := withKey(ctx, "csrf", cookie(jar, base, "service_csrf"))
	ok(person.AuthAPI.SetProfile(signedIn).PersonalName(*client.NewPersonalName("Ada", "Lovelace")).Execute())
	individual := client.NewSetAccountTypeBodyIndividual("individual")
	ok(person.AuthAPI.SetAccountType(signedIn).SetAccountTypeRequest(
		client.SetAccountTypeBodyIndividualAsSetAccountTypeRequest(individual)).Execute())
	platform := ok(person.PlatformsAPI.RegisterPersonalPlatform(signedIn).PlatformRegistration(
		*client.NewPlatformRegistration("Shop", "agentic_api", []string{scope})).Execute())

	keyed := withKey(ctx, "api_key", platform.ApiKey)
	agent := ok(application.ConnectionsAPI.CreateAgent(keyed, platform.ConnectionId).CreateAgentBody(
		*client.NewCreateAgentBody("bot", "api_agent")).Execute())
	wanted := client.NewRequestDelegationBody(platform.ConnectionId)
	wanted.RequestedScope = []string{scope}
	request := ok(person.DelegationsAPI.RequestDelegation(signedIn).RequestDelegationBody(*wanted).Execute())
	certificate := ok(person.DelegationsAPI.ApproveDelegationRequest(signedIn, request.RequestId).
		ApproveDelegationRequestBody(*client.NewApproveDelegationRequestBody([]string{scope})).Execute())

	present := func() client.VerifyProofBody {
		challenge := ok(application.ChallengeAPI.CreateChallenge(keyed).Execute())
		answer := client.NewPresentProofBody()
		answer.Challenge = &challenge.Challenge
		proof := ok(application.ConnectionsAPI.PresentProof(keyed, platform.ConnectionId, agent.AgentId).
			PresentProofBody(*answer).Execute())
		body := client.NewVerifyProofBody(scope)
		body.ProofRef = &proof.ProofRef
		return *body
	}
	verify := func(body client.VerifyProofBody) client.ApiVerifyProofRequest {
		return application.VerifyAPI.VerifyProof(keyed).VerifyProofBody(body)
	}
	first, second := present(), present()
	allowed := ok(verify(first).Execute())
	_, _, err := verify(first).Execute()
	var refused *client.GenericOpenAPIError
	if !errors.As(err, &refused) {
		log.Fatalf("a proof was verified twice: %v", err)
	}
	again := refused.Model().(client.Error)
	ok(person.DelegationsAPI.RevokeDelegation(signedIn, certificate.CertId).
		RevokeDelegationBody(*client.NewRevokeDelegationBody()).Execute())
	denied := ok(verify(second).Execute())

	print(map[string]any{
		"allowed": []string{allowed.Decision, allowed.DecisionReason},
		"denied":  []string{denied.Decision, denied.DecisionReason},
		"again":   []any{again.Error.Code, again.Error.Status},
		"added":   allowed.AdditionalProperties["added_later"],
	})
}

func newClient(base string, browser *http.Client) *client.APIClient {
	configuration := client.NewConfiguration()
	configuration.Servers = client.ServerConfigurations{{URL: base}}
	configuration.HTTPClient = browser
	return client.NewAPIClient(configuration)
}

func withKey(ctx context.Context, name, key string) context.Context {
	return context.WithValue(ctx, client.ContextAPIKeys, map[string]client.APIKey{name: {Key: key}})
}

func cookie(jar http.CookieJar, base, name string) string {
	for _, each := range jar.Cookies(must(url.Parse(base))) {
		if each.Name == name {
			return each.Value
		}
	}
	log.Fatalf("no cookie %s", name)
	return ""
}

// ok returns the answer of a call. It ends the program if the call failed.
func ok[T any](answer *T, response *http.Response, err error) *T {
	if err != nil {
		var refused *client.GenericOpenAPIError
		if errors.As(err, &refused) {
			log.Fatalf("%v: %s", err, refused.Body())
		}
		log.Fatal(err)
	}
	return answer
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func print(seen map[string]any) {
	fmt.Println(string(must(json.Marshal(seen))))
}
