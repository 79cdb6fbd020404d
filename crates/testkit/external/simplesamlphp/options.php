<?php
// What the test asks of this provider; each file of the configuration is read again for every request.
return json_decode(getenv('TESTKIT_OPTIONS'), true, 512, JSON_THROW_ON_ERROR);
